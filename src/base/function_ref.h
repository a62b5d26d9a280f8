#pragma once
#include <memory>
#include <type_traits>
#include <utility>

namespace sextant {

// Non-owning reference to a callable, as std::function_ref: for parameters that are called during
// the call and not stored. Never allocates.
template <class Signature>
class FunctionRef;

template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(F&& f)  // NOLINT(google-explicit-constructor): implicit from lambdas
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
