#include "model/layer.h"

#include "base/error.h"

namespace sextant {

Tensor Layer::backward(Stream& stream, const Micro& micro, const Tensor& dy, Saved& saved) {
  Tensor dx = backward_input(stream, micro, dy, saved);
  backward_weight(stream, micro, saved);
  return dx;
}

void Layer::discard_activations(Keep keep, Saved&) {
  SXT_CHECK(keep == Keep::All, Internal, "a layer that cannot be recomputed");
}

Hidden Layer::recompute(Stream&, const Micro&, Keep, Hidden, Saved&) {
  SXT_FAIL(Internal, "a layer that cannot be recomputed");
}

}  // namespace sextant
