#include "model/layer.h"

#include "base/error.h"

namespace sextant {

Tensor Layer::backward(Stream& stream, const Micro& micro, const Tensor& dy, Saved& saved) {
  Tensor dx = backward_input(stream, micro, dy, saved);
  backward_weight(stream, micro, saved);
  return dx;
}

Hidden Layer::forward_phase(Stream&, const Micro&, Phase, Hidden, Saved&) {
  SXT_FAIL(Internal, "a layer without phases");
}

Hidden Layer::recompute_phase(Stream&, const Micro&, Phase, Keep, Hidden, Saved&) {
  SXT_FAIL(Internal, "a layer without phases");
}

Tensor Layer::backward_phase(Stream&, const Micro&, Phase, Pass, const Tensor&, Saved&) {
  SXT_FAIL(Internal, "a layer without phases");
}

void Layer::discard_activations(Keep keep, Saved&) {
  SXT_CHECK(keep == Keep::All, Internal, "a layer that cannot be recomputed");
}

Hidden Layer::recompute(Stream&, const Micro&, Keep, Hidden, Saved&) {
  SXT_FAIL(Internal, "a layer that cannot be recomputed");
}

}  // namespace sextant
