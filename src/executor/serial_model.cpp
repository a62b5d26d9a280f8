#include "executor/serial_model.h"

namespace sextant {
namespace {

Pipeline pipeline_of(const Blueprint& blueprint, int micros, Recompute recompute) {
  Pipeline pipeline = serial_pipeline(blueprint, micros);
  pipeline.keeps = keeps_of(blueprint, recompute);
  return pipeline;
}

}  // namespace

SerialModel::SerialModel(Stream& stream, const Blueprint& blueprint,
                         const TransformerOptions& options, int micros, Recompute recompute)
    : stream_(stream),
      blueprint_(blueprint),
      pipeline_(pipeline_of(blueprint_, micros, recompute)),
      params_(make_sharded(stream, blueprint_, options, mesh_.mesh(),
                           part_of(blueprint_, pipeline_, 0))),
      transformer_(stream, blueprint_, options, mesh_.mesh(), part_of(blueprint_, pipeline_, 0),
                   params_),
      executor_(stream, transformer_, pipeline_, mesh_.mesh(),
                {.steps = options.gradients, .evaluations = 1}) {}

}  // namespace sextant
