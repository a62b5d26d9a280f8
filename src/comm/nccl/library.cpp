#include "comm/nccl/library.h"

#include <dlfcn.h>

#include "base/error.h"

namespace sextant::nccl {
namespace {

constexpr int kOldest = NCCL_VERSION(2, 18, 3);  // ncclCommSplit with a configuration

template <class Function>
void find(Library& library, void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (function == nullptr && library.problem.empty())
    library.problem = concat("NCCL cannot be used: the library has no ", name);
}

// What the dynamic loader finds comes first, so that LD_LIBRARY_PATH can name another version than
// that of the build.
Library load() {
  Library library;
  void* handle = nullptr;
  for (const char* name : {"libnccl.so.2", SXT_NCCL_LIBRARY})
    if (handle == nullptr) handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    library.problem = concat("NCCL cannot be loaded (", ::dlerror(), "): install libnccl2");
    return library;
  }
  find(library, handle, "ncclGetVersion", library.get_version);
  find(library, handle, "ncclGetUniqueId", library.get_unique_id);
  find(library, handle, "ncclCommInitRankConfig", library.init);
  find(library, handle, "ncclCommSplit", library.split);
  find(library, handle, "ncclCommFinalize", library.finalize);
  find(library, handle, "ncclCommDestroy", library.destroy);
  find(library, handle, "ncclCommAbort", library.abort);
  find(library, handle, "ncclCommGetAsyncError", library.async_error);
  find(library, handle, "ncclGetErrorString", library.error_string);
  find(library, handle, "ncclGetLastError", library.last_error);
  find(library, handle, "ncclGroupStart", library.group_start);
  find(library, handle, "ncclGroupEnd", library.group_end);
  find(library, handle, "ncclSend", library.send);
  find(library, handle, "ncclRecv", library.receive);
  find(library, handle, "ncclAllReduce", library.all_reduce);
  find(library, handle, "ncclReduceScatter", library.reduce_scatter);
  find(library, handle, "ncclReduce", library.reduce);
  find(library, handle, "ncclAllGather", library.all_gather);
  find(library, handle, "ncclBroadcast", library.broadcast);
  if (!library.problem.empty()) return library;
  if (library.get_version(&library.version) != ncclSuccess || library.version < kOldest)
    library.problem = concat(name_of_version(library.version),
                             " is too old: ", name_of_version(kOldest), " or later is needed");
  return library;
}

}  // namespace

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

std::string name_of_version(int version) {
  return concat("NCCL ", version / 10000, '.', version / 100 % 100, '.', version % 100);
}

}  // namespace sextant::nccl
