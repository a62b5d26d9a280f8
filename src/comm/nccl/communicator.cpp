#include "comm/nccl/communicator.h"

#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "comm/gpu_work.h"
#include "comm/nccl/collectives.h"

namespace sextant::nccl {
namespace {

constexpr int kSender = 0, kReceiver = 1;  // ranks in the connection of a channel

void check_gpu(const Call& call, const Rank& rank) {
  SXT_CHECK(call.stream != nullptr, Config, to_string(call),
            ": NCCL moves the memory of GPUs; run.transport = threads or mpi moves the host's");
  SXT_CHECK(call.stream->queue().index() == rank.gpu(), Internal, to_string(call),
            ": a stream of GPU ", call.stream->queue().index(), ", but this rank has GPU ",
            rank.gpu());
}

}  // namespace

NcclCommunicator::NcclCommunicator(Rank& rank, Communicator& host,
                                   std::unique_ptr<Communicator> own_host, Connection* connection)
    : Communicator(host.rank(), host.size(), host.name(), host.ledger()),
      rank_(rank),
      own_host_(std::move(own_host)),
      host_(host),
      meetings_(host.size() > 1 ? duplicate(host, host.name()) : nullptr),
      connection_(connection),
      channels_(2 * static_cast<size_t>(host.size())) {
  SXT_CHECK(host.size() <= kMostFolded, Config, "group ", host.name(), " of ", host.size(),
            " ranks: run.transport = nccl takes at most ", kMostFolded);
}

NcclCommunicator::~NcclCommunicator() {
  rank_.progress_thread().wait_idle();
  rank_.release(follows_);
}

// Ranks that are alone in their groups still take part in the split.
std::unique_ptr<Communicator> NcclCommunicator::make_subgroup(std::span<const int> ranks, int own,
                                                              const std::string& name) {
  rank_.progress_thread().wait_idle();
  std::unique_ptr<Communicator> host = host_.subgroup(ranks, name);
  const auto size = static_cast<int>(ranks.size());
  int64_t largest = size;
  if (connection_ != nullptr) host_.control().all_reduce(std::span(&largest, 1), ReduceOp::Max);
  Connection* connection = nullptr;
  if (largest > 1) connection = connection_->split(name, size > 1 ? ranks.front() : -1, size, own);
  Communicator& made = *host;
  return std::make_unique<NcclCommunicator>(rank_, made, std::move(host), connection);
}

NcclCommunicator::Channel& NcclCommunicator::channel_of(const Call& call) {
  const int index = call.operation == Operation::Send ? call.root : size() + call.root;
  std::unique_ptr<Channel>& channel = channels_[static_cast<size_t>(index)];
  if (!channel) channel = std::make_unique<Channel>();
  return *channel;
}

std::unique_ptr<Job> NcclCommunicator::prepare(const Call& call) {
  check_gpu(call, rank_);
  if (rank_.has_failed()) rank_.check();
  call.stream->queue().check_after_waits(&rank_.stream_check());
  auto job = std::make_unique<Job>();
  job->call = call;
  if (size() == 1) {
    const Call* calls[] = {&call};
    work_on_gpu(call.stream->queue(), calls);
    return job;
  }
  job->ready = rank_.take_mark(1);
  job->ready->event.record(call.stream->queue());
  job->done = rank_.take_mark(1);
  return job;
}

// Hands the job to the thread that issues calls of its kind.
void NcclCommunicator::push(Job& job) {
  job.thread =
      is_message(job.call.operation) ? &channel_of(job.call).thread : &rank_.progress_thread();
  job.place = job.thread->push([this, &job] {
    try {
      const Running running(*this, job.call);
      gpu::select(rank_.gpu());  // of this thread
      issue(job);
    } catch (...) {
      job.error = std::current_exception();
    }
  });
}

void NcclCommunicator::issue(Job& job) {
  if (is_message(job.call.operation)) return issue_message(job);
  meetings_->meet(job.call);
  issue_to(*connection_, job, [&] { issue_collective(*connection_, job.call, rank_.sums()); });
}

// The sender of the first message makes the id of the channel's connection, its note.
void NcclCommunicator::issue_message(Job& job) {
  Channel& channel = channel_of(job.call);
  const bool sends = job.call.operation == Operation::Send;
  std::array<std::byte, kNoteBytes> note{};
  ncclUniqueId id{};
  static_assert(sizeof id == kNoteBytes);
  if (channel.connection == nullptr && sends) {
    id = Connection::make_id();
    std::memcpy(note.data(), &id, sizeof id);
  }
  meetings_->meet(job.call, note.data());
  if (channel.connection == nullptr) {
    if (!sends) std::memcpy(&id, note.data(), sizeof id);
    channel.connection =
        &Connection::create(rank_, name(), id, 2, sends ? kSender : kReceiver, Carries::Messages);
  }
  issue_to(*channel.connection, job, [&] {
    nccl::issue_message(*channel.connection, job.call, sends ? kReceiver : kSender);
  });
}

void NcclCommunicator::issue_to(Connection& connection, Job& job, const std::function<void()>& f) {
  if (rank_.waits_on_host()) {
    rank_.await(*job.ready);
    if (job.after != nullptr) rank_.await(*job.after);
  }
  connection.queue().wait_for(job.ready->event);
  if (job.after != nullptr) connection.queue().wait_for(job.after->event);
  f();
  job.done->event.record(connection.queue());
  if (job.call.stream->queue().is_recording()) return rank_.add_recorded(connection, job.call);
  rank_.watch(connection, job.call, job.done);
  if (rank_.waits_on_host()) rank_.await(*job.done);
}

void NcclCommunicator::record(gpu::Graph& graph, Stream& stream, FunctionRef<void()> f) {
  rank_.start_recording();
  graph.record([&] {
    f();
    rank_.join_recorded(stream.queue());
  });
}

void NcclCommunicator::launch(gpu::Graph& graph, Stream& stream) {
  rank_.start_launch();
  stream.queue().check_after_waits(&rank_.stream_check());
  graph.launch();
  rank_.watch_launch(stream.queue());
}

// The rank's stream goes on behind the call.
void NcclCommunicator::complete(Job& job) {
  if (job.thread != nullptr) job.thread->wait_for(job.place);
  rank_.release(job.after);
  if (job.done == nullptr) return;  // alone
  if (!job.error) job.call.stream->queue().wait_for(job.done->event);
  rank_.release(job.ready);
  rank_.release(job.done);
  if (job.error) std::rethrow_exception(job.error);
}

void NcclCommunicator::execute(const Call& call) {
  const std::unique_ptr<Job> job = prepare(call);
  if (size() == 1) return;
  if (is_message(call.operation)) {
    push(*job);
  } else {
    rank_.progress_thread().wait_idle();
    try {
      issue(*job);
    } catch (...) {
      job->error = std::current_exception();
    }
  }
  complete(*job);
}

int64_t NcclCommunicator::start(const Call& call) {
  std::unique_ptr<Job> job = prepare(call);
  if (!is_message(call.operation)) job->after = std::exchange(follows_, nullptr);
  if (size() > 1) push(*job);
  return rank_.keep(std::move(job));
}

void NcclCommunicator::finish(int64_t ticket) {
  complete(*rank_.take(ticket));
}

// The progress thread issues the collectives of a rank in the order in which they were started, so
// the end of the earlier one is recorded before the later one waits for it. The later one is a user
// of that mark: whoever took it in between would record it again.
void NcclCommunicator::start_after(int64_t ticket) {
  const Job& earlier = rank_.job(ticket);
  SXT_CHECK(!is_message(earlier.call.operation), Internal, name(),
            ": a collective cannot follow a message");
  rank_.release(std::exchange(follows_, rank_.share(earlier.done)));
}

}  // namespace sextant::nccl
