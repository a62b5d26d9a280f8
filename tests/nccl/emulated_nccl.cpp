// A stand-in for libnccl.so.2 between threads, over host memory and emulated streams. As the real
// one, it makes calls of a communicator one after another, blocks a stream until the peers come,
// puts work into the stream only some polls after a non-blocking call, and fills the handle of a
// split when the parent is ready.
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "nccl/emulated_gpu.h"
#include "nccl/emulated_nccl.h"

namespace {

constexpr int kPollsUntilReady = 3;

struct Parcel {
  const char* data = nullptr;
  size_t bytes = 0;
  bool is_taken = false;
};

// What the ranks of a communicator share.
struct Clique {
  std::mutex mutex;
  std::condition_variable changed;
  int size = 0, joined = 0;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Parcel>>> mail;  // from, to
  struct Split {
    int arrived = 0;
    std::map<int, std::map<int, int>> keys;  // color: key: rank
    std::map<int, std::shared_ptr<Clique>> cliques;
  };
  std::map<int, Split> splits;  // by number
};

std::mutex all_mutex;
std::map<std::vector<char>, std::shared_ptr<Clique>> cliques;
int last_id = 0, alive = 0;
int failing_rank = -1;
std::atomic<int> stalled_rank{-1}, calls_until_stall{0};

}  // namespace

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  bool is_aborted = false;
  int polls = 0;                              // until the last call is ready
  std::vector<std::function<void()>> queued;  // to be put into the stream then
  int splits = 0;
  std::function<bool()> is_ready;  // of an init or a split
};

namespace {

struct Operation {
  std::shared_ptr<ncclComm> comm;
  cudaStream_t stream = nullptr;
  std::function<void(ncclComm&)> begin, end;  // posts parcels; takes them
};
thread_local int depth = 0;
thread_local std::vector<Operation> group;
std::map<ncclComm*, std::shared_ptr<ncclComm>> comms;  // guarded by all_mutex

std::shared_ptr<ncclComm> find(ncclComm_t comm) {
  const std::lock_guard lock(all_mutex);
  const auto found = comms.find(comm);
  return found == comms.end() ? nullptr : found->second;
}

std::shared_ptr<Parcel> post(ncclComm& comm, const void* data, size_t bytes, int to) {
  auto parcel = std::make_shared<Parcel>();
  parcel->data = static_cast<const char*>(data);
  parcel->bytes = bytes;
  const std::lock_guard lock(comm.clique->mutex);
  comm.clique->mail[{comm.rank, to}].push_back(parcel);
  comm.clique->changed.notify_all();
  return parcel;
}

void await_taken(ncclComm& comm, Parcel& parcel) {
  std::unique_lock lock(comm.clique->mutex);
  comm.clique->changed.wait(lock, [&] { return parcel.is_taken || comm.is_aborted; });
}

void take(ncclComm& comm, void* data, size_t bytes, int from) {
  std::unique_lock lock(comm.clique->mutex);
  auto& box = comm.clique->mail[{from, comm.rank}];
  comm.clique->changed.wait(lock, [&] { return !box.empty() || comm.is_aborted; });
  if (comm.is_aborted) return;
  std::shared_ptr<Parcel> parcel = box.front();
  box.pop_front();
  std::memcpy(data, parcel->data, std::min(bytes, parcel->bytes));
  parcel->is_taken = true;
  comm.clique->changed.notify_all();
}

// All operations of a group begin before any is waited for.
void run(ncclComm& comm, const std::vector<Operation>& operations) {
  if (stalled_rank == comm.rank && calls_until_stall-- <= 0) {  // a GPU that hangs
    std::unique_lock lock(comm.clique->mutex);
    comm.clique->changed.wait(lock, [&] { return comm.is_aborted; });
    return;
  }
  for (const Operation& operation : operations)
    if (operation.begin) operation.begin(comm);
  for (const Operation& operation : operations)
    if (!operation.begin) operation.end(comm);  // receives, for which others may wait
  for (const Operation& operation : operations)
    if (operation.begin) operation.end(comm);
}

ncclResult_t close_group() {
  std::vector<Operation> operations = std::move(group);
  group.clear();
  if (operations.empty()) return ncclSuccess;
  const std::shared_ptr<ncclComm> comm = operations.front().comm;
  if (failing_rank == comm->rank) return ncclUnhandledCudaError;
  const cudaStream_t stream = operations.front().stream;
  comm->polls = kPollsUntilReady;
  comm->queued.push_back(
      [=] { reinterpret_cast<CUstream_st*>(stream)->push([=] { run(*comm, operations); }); });
  return ncclInProgress;
}

ncclResult_t add(ncclComm_t comm, cudaStream_t stream, std::function<void(ncclComm&)> begin,
                 std::function<void(ncclComm&)> end) {
  const std::shared_ptr<ncclComm> found = find(comm);
  if (!found || found->polls > 0 || found->is_ready) return ncclInvalidUsage;
  group.push_back({found, stream, std::move(begin), std::move(end)});
  return depth > 0 ? ncclSuccess : close_group();
}

size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

// Sends to all and takes from all.
ncclResult_t gather_all(const void* in, size_t bytes, ncclComm_t comm, cudaStream_t stream,
                        std::function<void(ncclComm&, const std::vector<char>&)> use) {
  auto mine = std::make_shared<std::vector<char>>();
  auto parcels = std::make_shared<std::vector<std::shared_ptr<Parcel>>>();
  return add(
      comm, stream,
      [=](ncclComm& own) {
        mine->assign(static_cast<const char*>(in), static_cast<const char*>(in) + bytes);
        parcels->clear();  // of the last launch, where a graph repeats the call
        for (int peer = 0; peer < own.clique->size; ++peer)
          parcels->push_back(post(own, mine->data(), bytes, peer));
      },
      [=](ncclComm& own) {
        std::vector<char> all(bytes * static_cast<size_t>(own.clique->size));
        for (int peer = 0; peer < own.clique->size; ++peer)
          take(own, all.data() + static_cast<size_t>(peer) * bytes, bytes, peer);
        for (const auto& parcel : *parcels) await_taken(own, *parcel);
        if (!own.is_aborted) use(own, all);
      });
}

// From the last rank to the first: another order than Sextant's.
template <class T>
void sum(void* out, const std::vector<char>& all, size_t slice, size_t begin, size_t count) {
  const size_t ranks = all.size() / slice;
  for (size_t i = 0; i < count; ++i) {
    T total{};
    for (size_t rank = ranks; rank-- > 0;) {
      T x;
      std::memcpy(&x, all.data() + rank * slice + (begin + i) * sizeof(T), sizeof x);
      total = static_cast<T>(total + x);
    }
    std::memcpy(static_cast<char*>(out) + i * sizeof(T), &total, sizeof total);
  }
}

void sum_of(void* out, const std::vector<char>& all, size_t slice, size_t begin, size_t count,
            ncclDataType_t type) {
  if (type == ncclFloat32) sum<float>(out, all, slice, begin, count);
  if (type == ncclFloat64) sum<double>(out, all, slice, begin, count);
  if (type == ncclInt32) sum<int>(out, all, slice, begin, count);
  if (type == ncclInt64) sum<long>(out, all, slice, begin, count);
}

ncclComm_t make(std::shared_ptr<Clique> clique, int rank) {
  auto comm = std::make_shared<ncclComm>();
  comm->clique = std::move(clique);
  comm->rank = rank;
  comm->is_ready = [own = comm.get()] {
    const std::lock_guard lock(own->clique->mutex);
    return own->clique->joined == own->clique->size;
  };
  const std::lock_guard lock(comm->clique->mutex);
  ++comm->clique->joined;
  ++alive;
  comms[comm.get()] = comm;
  return comm.get();
}

}  // namespace

extern "C" {

int emulated_nccl_alive() {
  const std::lock_guard lock(all_mutex);
  return alive;
}
void emulated_nccl_stall(int rank, int calls) {
  calls_until_stall = calls;
  stalled_rank = rank;
}
void emulated_nccl_fail(int rank) {
  failing_rank = rank;
}

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION(2, 99, 0);
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(all_mutex);
  std::memset(id, 0, sizeof *id);
  ++last_id;
  std::memcpy(id, &last_id, sizeof last_id);
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) {
  return "an emulated error";
}
const char* ncclGetLastError(ncclComm_t) {
  return "of the emulation";
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  const std::lock_guard lock(all_mutex);
  std::shared_ptr<Clique>& clique = cliques[{id.internal, id.internal + sizeof id.internal}];
  if (!clique) clique = std::make_shared<Clique>();
  clique->size = ranks;
  *comm = make(clique, rank);
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* child,
                           ncclConfig_t* config) {
  const std::shared_ptr<ncclComm> own = find(parent);
  if (!own || config->blocking != 0 || own->is_ready) return ncclInvalidArgument;
  const int number = ++own->splits;
  Clique& clique = *own->clique;
  {
    const std::lock_guard lock(clique.mutex);
    Clique::Split& split = clique.splits[number];
    ++split.arrived;
    if (color >= 0) split.keys[color][key] = own->rank;
  }
  own->is_ready = [&clique, number, color, key, child, parent = own.get()] {
    std::shared_ptr<Clique> made;
    int place = 0;
    {
      const std::lock_guard lock(clique.mutex);
      Clique::Split& split = clique.splits[number];
      if (split.arrived < clique.size) return false;
      if (color < 0) return true;
      std::shared_ptr<Clique>& mine = split.cliques[color];
      if (!mine) mine = std::make_shared<Clique>();
      mine->size = static_cast<int>(split.keys[color].size());
      for (const auto& [other, rank] : split.keys[color]) place += other < key ? 1 : 0;
      made = mine;
    }
    *child = make(made, place);
    return true;
  };
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard lock(all_mutex);
  const auto found = comms.find(comm);
  if (found == comms.end()) return ncclInvalidArgument;
  const std::shared_ptr<ncclComm> own = found->second;
  if (own->is_ready) {
    if (!own->is_ready()) {
      *state = ncclInProgress;
      return ncclSuccess;
    }
    own->is_ready = nullptr;
  }
  if (own->polls > 0 && --own->polls == 0) {
    for (const std::function<void()>& put : own->queued) put();
    own->queued.clear();
  }
  *state = own->polls > 0 ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::shared_ptr<ncclComm> own = find(comm);
  if (!own) return ncclInvalidArgument;
  {
    const std::lock_guard lock(own->clique->mutex);
    own->is_aborted = true;
    own->clique->changed.notify_all();
  }
  return ncclCommDestroy(comm);
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return find(comm) ? ncclInProgress : ncclInvalidArgument;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::lock_guard lock(all_mutex);
  if (comms.erase(comm) == 0) return ncclInvalidArgument;
  --alive;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--depth > 0) return ncclSuccess;
  return close_group();
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  auto parcel = std::make_shared<std::shared_ptr<Parcel>>();
  return add(
      comm, stream, [=](ncclComm& own) { *parcel = post(own, data, bytes, peer); },
      [=](ncclComm& own) { await_taken(own, **parcel); });
}
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  return add(comm, stream, nullptr, [=](ncclComm& own) { take(own, data, bytes, peer); });
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return gather_all(
      in, count * size_of(type), comm, stream,
      [=](ncclComm&, const std::vector<char>& all) { std::memcpy(out, all.data(), all.size()); });
}
ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  return gather_all(in, bytes, comm, stream, [=](ncclComm&, const std::vector<char>& all) {
    sum_of(out, all, bytes, 0, count, type);
  });
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  const std::shared_ptr<ncclComm> own = find(comm);
  const size_t bytes = count * size_of(type) * static_cast<size_t>(own->clique->size);
  const size_t begin = count * static_cast<size_t>(own->rank);
  return gather_all(in, bytes, comm, stream, [=](ncclComm&, const std::vector<char>& all) {
    sum_of(out, all, bytes, begin, count, type);
  });
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  return gather_all(in, bytes, comm, stream, [=](ncclComm& own, const std::vector<char>& all) {
    if (own.rank == root) sum_of(out, all, bytes, 0, count, type);
  });
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  return gather_all(in, bytes, comm, stream, [=](ncclComm&, const std::vector<char>& all) {
    std::memcpy(out, all.data() + static_cast<size_t>(root) * bytes, bytes);
  });
}

}  // extern "C"
