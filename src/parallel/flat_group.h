#pragma once
#include <string>
#include <vector>

#include "base/number_types.h"
#include "comm/communicator.h"
#include "parallel/param.h"

namespace sextant {

// Parameters stored one behind the other in one vector, and this rank's part of it. Who keeps which
// tensor, and when, is decided by ShardedParams.
struct FlatGroup {
  std::string name;
  NumberTypes types;
  int number = 0;  // among the groups of the whole model
  std::vector<Param*> params;
  std::vector<int64_t> offsets;  // of each in the vector
  int64_t elements = 0;
  Range owned;  // elements this rank updates
  Range kept;   // elements whose weights it keeps between uses: all, or the owned ones
  // Ranks that divide it, and ranks that have the same part of it but other data; perhaps one.
  Communicator* shards;
  Communicator* replicas;

  Tensor kept_weights;   // [kept]
  Tensor kept_gradient;  // [elements], or [owned] when gradients are divided; empty without any
  Tensor gathered;       // [elements], while values are gathered
  Tensor bucket;         // [elements], while a divided gradient is made or reduced

  Pending gathering;           // of values
  Pending reducing;            // of gradients over the shards
  Pending replicating;         // of gradients over the replicas
  bool is_duplicated = false;  // another rank of the pipeline holds it too

  // The parameters as views of a vector of all elements; an empty one takes them away.
  void bind_values(const Tensor& flat);
  void bind_gradients(const Tensor& flat);

  // The owned elements of a vector of all elements, or of the owned ones alone.
  Tensor owned_part(const Tensor& flat) const;

  // f(param, range of the parameter's elements, place of them counted from range.begin) for what
  // `range` of the vector has of each parameter, be it nothing.
  template <class F>
  void for_each_piece(const Range& range, F&& f) {
    for (size_t i = 0; i < params.size(); ++i) {
      const Range whole{offsets[i], offsets[i] + params[i]->shape.elements()};
      const Range part = overlap(whole, range);
      if (part.size() == 0)
        f(*params[i], Range{}, Range{});
      else
        f(*params[i], Range{part.begin - whole.begin, part.end - whole.begin},
          Range{part.begin - range.begin, part.end - range.begin});
    }
  }
};

}  // namespace sextant
