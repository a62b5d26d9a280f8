#include "cli/command.h"

int main(int argc, char** argv) {
  return sextant::cli::run(argc, argv);
}
