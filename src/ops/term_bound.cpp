#include "ops/term_bound.h"

#include "ops/check.h"

namespace sextant {

SXT_BACKENDS(term_bound);

void term_bound(Stream& stream, Tensor& bound, const Tensor& dy, const Tensor& x, double factor) {
  SXT_CHECK(bound.dtype() == DType::F64 && bound.elements() == 1, Usage, "term_bound: bound ",
            bound.shape(), " of ", name_of(bound.dtype()), ", must be [1] of f64");
  SXT_CHECK(!x || x.rows() == dy.rows(), Usage, "term_bound: x ", x.shape(),
            " has other rows than dy ", dy.shape());
  SXT_DISPATCH(stream,
               Work("term_bound")
                   .writes(bound)
                   .reads(bound, dy, x)
                   .flops(2.0 * (dy.elements() + (x ? x.elements() : 0))),
               term_bound(stream, bound, dy, x, factor));
}

}  // namespace sextant
