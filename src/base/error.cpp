#include "base/error.h"

namespace sextant {

int exit_code(Fault fault) {
  switch (fault) {
    case Fault::Internal:
    case Fault::Failure:
      return 1;
    case Fault::Usage:
    case Fault::Config:
      return 2;
    case Fault::Memory:
      return 3;
    case Fault::Data:
      return 4;
    case Fault::Peer:
      return 5;
  }
  return 1;
}

}  // namespace sextant
