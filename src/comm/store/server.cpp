#include "comm/store/server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "comm/mismatch.h"

namespace sextant::store {
namespace {

constexpr int kPollMilliseconds = 20;
constexpr double kAnswerSeconds = 0.5;  // for a rank to say what it does

bool is_complete(const std::vector<std::optional<Request>>& requests) {
  return std::ranges::all_of(requests, [](const auto& request) { return request.has_value(); });
}

// Every rank sends to every other one as much as that one expects.
bool pairs_fit(const std::vector<Request>& requests) {
  for (size_t from = 0; from < requests.size(); ++from)
    for (size_t to = 0; to < requests.size(); ++to)
      if (requests[from].sent.size() != requests.size() ||
          requests[to].received.size() != requests.size() ||
          requests[from].sent[to] != requests[to].received[from])
        return false;
  return true;
}

bool agree(const std::vector<Request>& requests) {
  for (const Request& request : requests)
    if (request.key != requests.front().key || request.moves != requests.front().moves ||
        (request.data.size() != requests.front().data.size() &&
         request.operation == Operation::AllReduce))
      return false;
  return requests.front().operation != Operation::AllToAll || pairs_fit(requests);
}

std::string place_of(const Request& request) {
  Call call;
  call.operation = request.operation;
  call.sequence = request.sequence;
  return sextant::place_of(request.group, call);
}

}  // namespace

Server::Server(Socket listener, Socket own, std::string job, int ranks, const Clock& clock,
               double timeout_s)
    : listener_(std::move(listener)),
      job_(std::move(job)),
      ranks_(ranks),
      clock_(clock),
      deadline_s_(timeout_s),
      begun_(clock.now()) {
  connections_.emplace_back().socket = std::move(own);
  thread_ = std::thread([this] { work(); });
}

Server::~Server() {
  ending_.store(true);
  thread_.join();
}

void Server::work() {
  double ending = 0;
  while (true) {
    if (ending_.load()) {
      if (ending == 0) ending = clock_.now();
      if (is_empty() || clock_.now() - ending > kLeaveSeconds) return;
    }
    std::vector<pollfd> waits;
    waits.push_back({listener_ ? listener_.handle() : -1, POLLIN, 0});
    for (const Connection& connection : connections_)
      waits.push_back({connection.socket ? connection.socket.handle() : -1, POLLIN, 0});
    ::poll(waits.data(), waits.size(), kPollMilliseconds);
    for (size_t i = 1; i < waits.size(); ++i)
      if (waits[i].revents != 0) read_from(connections_[i - 1]);
    std::erase_if(connections_, [](const Connection& connection) {
      return !connection.socket && connection.rank < 0;  // closed before it named a rank
    });
    if (waits[0].revents != 0) accept_one();
    check_join();
    check_deadlines();
  }
}

bool Server::is_empty() const {
  return std::ranges::none_of(connections_, [](const Connection& connection) {
    return connection.socket && !connection.has_left;
  });
}

void Server::accept_one() {
  Socket socket(::accept4(listener_.handle(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket) connections_.emplace_back().socket = std::move(socket);
}

void Server::send(Connection& connection, FrameKind kind, int64_t id, const Bytes& bytes) {
  if (!connection.socket) return;
  if (!send_all(connection.socket, encode(kind, id, bytes), kSendSeconds)) lose(connection);
}

void Server::read_from(Connection& connection) {
  const bool is_open = receive_some(connection.socket, connection.buffer);
  try {
    while (std::optional<Frame> frame = take_frame(connection.buffer)) take(connection, *frame);
  } catch (const Error& error) {
    connection.socket.close();
    if (connection.rank >= 0) fail(concat("rank ", connection.rank, ": ", error.what()));
    return;
  }
  if (!is_open) lose(connection);
}

void Server::lose(Connection& connection) {
  connection.socket.close();
  if (connection.rank < 0 || connection.has_left) return;
  connection.has_left = true;
  fail(concat("rank ", connection.rank, " has ended in the middle of the run: its process was ",
              "killed, or its host is gone"));
}

void Server::take(Connection& connection, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::Hello:
      return let_in(connection, frame);
    case FrameKind::Call:
      SXT_CHECK(connection.rank >= 0, Peer, "a call before Hello");
      return take_call(connection.rank, frame);
    case FrameKind::Failure:
      connection.has_left = true;  // its end is no news
      return fail(text_of(frame.bytes));
    case FrameKind::Status:
      connection.status = text_of(frame.bytes);
      return;
    case FrameKind::Goodbye:
      connection.has_left = true;
      return;
    default:
      SXT_FAIL(Peer, "a frame that only the store sends");
  }
}

void Server::let_in(Connection& connection, const Frame& hello) {
  Reader reader(hello.bytes);
  const auto job = reader.take_list<std::string>();
  const int rank = reader.take<int>(), ranks = reader.take<int>();
  if (job != job_) {  // another run's, which looks for its own store
    connection.socket.close();
    return;
  }
  const auto refuse = [&](const std::string& text) {
    send(connection, FrameKind::Failure, 0, bytes_of(text));
    connection.socket.close();
  };
  if (ranks != ranks_)
    return refuse(
        concat("rank ", rank, " was started with WORLD_SIZE=", ranks, ", rank 0 with ", ranks_));
  if (rank < 0 || rank >= ranks_ || find(rank) != nullptr)
    return refuse(concat("RANK=", rank, " was given to two processes"));
  connection.rank = rank;
  send(connection, FrameKind::Accepted, 0, {});
  if (!failure_.empty()) return send(connection, FrameKind::Failure, 0, bytes_of(failure_));
  if (joined() < ranks_) return;
  is_complete_ = true;
  listener_.close();
  for (Connection& other : connections_) send(other, FrameKind::Welcome, 0, {});
}

Server::Connection* Server::find(int rank) {
  const auto found = std::ranges::find(connections_, rank, &Connection::rank);
  return found == connections_.end() ? nullptr : &*found;
}

int Server::joined() const {
  return static_cast<int>(
      std::ranges::count_if(connections_, [](const auto& one) { return one.rank >= 0; }));
}

void Server::check_join() {
  if (is_complete_ || !failure_.empty() || clock_.now() - begun_ < deadline_s_) return;
  std::vector<int> missing;
  for (int rank = 0; rank < ranks_; ++rank)
    if (find(rank) == nullptr) missing.push_back(rank);
  fail(concat("rank ", list_ranks(missing, [](int rank) { return rank; }), " of ", ranks_,
              " did not come to the store of rank 0 within ", deadline_s_, " s"));
}

void Server::take_call(int rank, const Frame& frame) {
  Connection& from = *find(rank);
  if (!failure_.empty()) return send(from, FrameKind::Failure, frame.id, bytes_of(failure_));
  Request request = decode_request(frame.bytes);
  const bool sends = request.operation == Operation::Send;
  const bool is_message = sextant::is_message(request.operation);
  const int sender = sends ? request.rank : request.root;
  const int receiver = sends ? request.root : request.rank;
  const Key key{request.number, request.world_ranks.front(), is_message ? sender : -1,
                is_message ? receiver : -1, request.sequence};
  Meeting& meeting = meetings_[key];
  if (meeting.requests.empty()) {
    meeting.begun = clock_.now();
    meeting.world_ranks = request.world_ranks;
    if (is_message)
      meeting.world_ranks = {request.world_ranks[static_cast<size_t>(sender)],
                             request.world_ranks[static_cast<size_t>(receiver)]};
    meeting.requests.resize(meeting.world_ranks.size());
    meeting.ids.resize(meeting.requests.size());
  }
  const auto place = static_cast<size_t>(is_message ? (sends ? 0 : 1) : request.rank);
  SXT_CHECK(place < meeting.requests.size() && !meeting.requests[place], Peer, place_of(request),
            ": the ranks of the group do not agree who belongs to it");
  meeting.requests[place] = std::move(request);
  meeting.ids[place] = frame.id;
  if (!is_complete(meeting.requests)) return;
  Meeting whole = std::move(meeting);
  meetings_.erase(key);
  finish(key, whole);
}

void Server::finish(const Key& key, Meeting& meeting) {
  std::vector<Request> requests;
  for (std::optional<Request>& request : meeting.requests) requests.push_back(std::move(*request));
  const Request& first = requests.front();
  Call call;
  call.operation = first.operation;
  call.sequence = first.sequence;
  if (std::get<2>(key) >= 0) {
    const Request &send = requests[0], &receive = requests[1];
    if (send.key != receive.key || send.moves != receive.moves)
      return refuse(meeting, describe_mismatch(first.group, call, send.rank, send.text,
                                               receive.rank, receive.text));
    return answer_all(meeting, {{}, send.data});
  }
  if (!agree(requests)) {
    std::vector<std::string> texts;
    for (const Request& request : requests) texts.push_back(request.text);
    return refuse(meeting, describe_mismatch(first.group, call, texts));
  }
  answer_all(meeting, results_of(requests));
}

void Server::answer_all(const Meeting& meeting, const std::vector<Bytes>& results) {
  for (size_t i = 0; i < results.size(); ++i)
    if (Connection* to = find(meeting.world_ranks[i]))
      send(*to, FrameKind::Answer, meeting.ids[i], results[i]);
}

void Server::refuse(const Meeting& meeting, const std::string& text) {
  for (size_t i = 0; i < meeting.ids.size(); ++i)
    if (Connection* to = find(meeting.world_ranks[i]))
      send(*to, FrameKind::Refusal, meeting.ids[i], bytes_of(text));
}

bool Server::has_heard_of(const Meeting& meeting) {
  for (size_t i = 0; i < meeting.requests.size(); ++i)
    if (const Connection* there = find(meeting.world_ranks[i]);
        !meeting.requests[i] && there != nullptr && !there->has_left && !there->status)
      return false;
  return true;
}

// Ranks of the meeting, by their place in it, that have not made the call.
std::vector<int> Server::missing_of(const Meeting& meeting) {
  std::vector<int> missing;
  for (size_t i = 0; i < meeting.requests.size(); ++i)
    if (!meeting.requests[i]) missing.push_back(static_cast<int>(i));
  return missing;
}

// The missing ranks are asked first what they do; a rank that waits or computes answers at once.
void Server::check_deadlines() {
  for (auto& [key, meeting] : meetings_) {
    const std::vector<int> missing = missing_of(meeting);
    if (clock_.now() - meeting.begun < deadline_s_) continue;
    if (meeting.asked == 0) {
      meeting.asked = clock_.now();
      for (const int i : missing) {
        Connection* there = find(meeting.world_ranks[static_cast<size_t>(i)]);
        if (there == nullptr) continue;
        there->status.reset();
        send(*there, FrameKind::Question, 0, {});
        if (!failure_.empty()) return;  // that one is lost, and with it all meetings
      }
    }
    if (!has_heard_of(meeting) && clock_.now() - meeting.asked < kAnswerSeconds) continue;
    return fail(describe_missing(key, meeting));
  }
}

std::string Server::describe_missing(const Key& key, const Meeting& meeting) {
  const Request& made = **std::ranges::find_if(
      meeting.requests, [](const auto& request) { return request.has_value(); });
  std::vector<int> missing;  // as ranks of the group
  std::string statuses;
  for (const int i : missing_of(meeting)) {
    const bool is_message = std::get<2>(key) >= 0;
    missing.push_back(!is_message ? i : i == 0 ? std::get<2>(key) : std::get<3>(key));
    const int in_world = meeting.world_ranks[static_cast<size_t>(i)];
    const Connection* there = find(in_world);
    statuses += concat("; rank ", in_world, ' ',
                       there != nullptr && there->status ? *there->status : "does not answer");
  }
  return concat(
      place_of(made), ": rank ",
      list_ranks(missing, [&](int rank) { return made.world_ranks[static_cast<size_t>(rank)]; }),
      " did not call ", made.text, " within ", deadline_s_, " s", statuses);
}

void Server::fail(const std::string& reason) {
  if (!failure_.empty()) return;
  failure_ = reason;
  for (Connection& connection : connections_)
    if (connection.rank >= 0) send(connection, FrameKind::Failure, 0, bytes_of(reason));
  meetings_.clear();
}

}  // namespace sextant::store
