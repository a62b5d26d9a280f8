#pragma once
#include <memory>
#include <type_traits>
#include <utility>

namespace sextant {

// A function that is called while the call it is given to lasts, and not kept: a lambda behind a
// pointer, whatever it holds on to. Asks nothing of the heap.
template <class Signature>
class FunctionRef;

template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(F&& f)  // NOLINT(google-explicit-constructor): lambdas are passed as they are
      : context_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* context, Arguments... arguments) -> Result {
          return (*static_cast<std::remove_reference_t<F>*>(context))(
              std::forward<Arguments>(arguments)...);
        }) {}

  Result operator()(Arguments... arguments) const {
    return call_(context_, std::forward<Arguments>(arguments)...);
  }

 private:
  void* context_;
  Result (*call_)(void*, Arguments...);
};

}  // namespace sextant
