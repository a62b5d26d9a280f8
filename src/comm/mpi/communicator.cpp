#include "comm/mpi/communicator.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "comm/mismatch.h"

namespace sextant::mpi {

MpiCommunicator::MpiCommunicator(Process& process, Ledger& ledger, std::string name,
                                 std::vector<int> world_ranks, int rank, int number)
    : Communicator(rank, static_cast<int>(world_ranks.size()), name, ledger),
      process_(process),
      group_{process, std::move(name), std::move(world_ranks), rank, number} {
  SXT_CHECK(group_.tag(Kind::Message) <= process.largest_tag(), Failure, "group ", group_.name,
            " is number ", number, ", more than the tags of this MPI library can tell apart");
}

MpiCommunicator::~MpiCommunicator() {
  process_.progress_thread().wait_idle();
}

// The new groups get a number that no rank of the parent has used yet. Groups made by one call have
// no rank in common, so they can have the same number.
std::unique_ptr<Communicator> MpiCommunicator::make_subgroup(std::span<const int> ranks, int own,
                                                             const std::string& name) {
  int64_t number = process_.next_group();
  control().all_reduce(std::span(&number, 1), ReduceOp::Max);
  process_.set_next_group(static_cast<int>(number) + 1);
  std::vector<int> world_ranks;
  for (const int peer : ranks) world_ranks.push_back(world_rank(peer));
  return std::make_unique<MpiCommunicator>(process_, ledger(), name, std::move(world_ranks), own,
                                           static_cast<int>(number));
}

void MpiCommunicator::abort(const std::string& reason) {
  process_.fail(reason, "aborted");
}

bool MpiCommunicator::is_aborted() {
  try {
    process_.listen();
  } catch (const Error&) {
    return true;
  }
  return false;
}

void MpiCommunicator::check_alive() {
  process_.listen();
}

namespace {

void check_host_memory(const Call& call) {
  SXT_CHECK(call.stream == nullptr, Config, to_string(call),
            ": MPI moves host memory; run.transport = threads moves that of a GPU");
}

}  // namespace

void MpiCommunicator::execute(const Call& call) {
  check_host_memory(call);
  if (is_message(call.operation)) {
    Job job(process_);
    job.call = call;
    post_message(job);
    finish_message(job);
  } else {
    process_.progress_thread().wait_idle();
    run_collective(group_, call);
  }
}

int64_t MpiCommunicator::start(const Call& call) {
  check_host_memory(call);
  auto made = std::make_unique<Job>(process_);
  Job& job = *made;
  job.call = call;
  if (is_message(call.operation)) {
    post_message(job);
  } else {
    process_.check();
    job.place = process_.progress_thread().push([this, &job] {
      try {
        const Running running(*this, job.call);
        run_collective(group_, job.call);
      } catch (...) {
        job.error = std::current_exception();
      }
    });
  }
  jobs_.emplace(++last_ticket_, std::move(made));
  return last_ticket_;
}

void MpiCommunicator::finish(int64_t ticket) {
  const auto found = jobs_.find(ticket);
  const std::unique_ptr<Job> job = std::move(found->second);
  jobs_.erase(found);
  if (is_message(job->call.operation)) {
    const Running running(*this, job->call);
    return finish_message(*job);
  }
  process_.progress_thread().wait_for(job->place);
  if (job->error) std::rethrow_exception(job->error);
}

// Sender and receiver exchange headers, so that both notice a mismatch.
void MpiCommunicator::post_message(Job& job) {
  process_.listen();
  const Call& call = job.call;
  const bool sends = call.operation == Operation::Send;
  const int peer = world_rank(call.root);
  const int64_t bytes = message_bytes(call);
  job.own = header_of(call);
  job.headers.receive(reinterpret_cast<std::byte*>(&job.other), sizeof job.other, peer,
                      group_.tag(sends ? Kind::ReceiveHeader : Kind::SendHeader), call.root);
  job.headers.send(reinterpret_cast<const std::byte*>(&job.own), sizeof job.own, peer,
                   group_.tag(sends ? Kind::SendHeader : Kind::ReceiveHeader), call.root);
  if (sends)
    job.data.send(call.in, bytes, peer, group_.tag(Kind::Message), call.root);
  else
    job.data.receive(call.out, bytes, peer, group_.tag(Kind::Message), call.root);
}

void MpiCommunicator::finish_message(Job& job) {
  try {
    wait_for_message(job);
  } catch (const Error&) {
    // The caller is about to free memory that MPI may still write while the progress thread is in
    // an MPI call.
    process_.progress_thread().wait_idle();
    throw;
  }
}

void MpiCommunicator::wait_for_message(Job& job) {
  const Call& call = job.call;
  if (job.headers.wait() == Requests::End::Late)
    fail_late(group_, call, job.headers, "did not call");
  if (job.other.key != job.own.key || job.other.sequence != job.own.sequence) {
    const bool sends = call.operation == Operation::Send;
    const Header &from = sends ? job.own : job.other, &to = sends ? job.other : job.own;
    const int sender = sends ? rank() : call.root, receiver = sends ? call.root : rank();
    const std::string text = describe_mismatch(name(), call, sender, from.text, receiver, to.text);
    process_.fail(text);
    throw Error(Fault::Peer, text);
  }
  if (job.data.wait() == Requests::End::Late)
    fail_late(group_, call, job.data, "came, but neither sent nor took the data of");
}

}  // namespace sextant::mpi
