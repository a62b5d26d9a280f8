// Bookkeeping around every call: sequence number, traffic, flight recorder, trace, timing.
#include "base/error.h"
#include "comm/communicator.h"

namespace sextant {
namespace {

Traffic volume_of(const Call& call, int rank, int ranks) {
  const int64_t elements = elements_sent(call, rank, ranks);
  return {1, elements, elements * size_of(call.dtype)};
}

}  // namespace

inline void Communicator::number(Call& call) {
  if (!is_message(call.operation)) {
    call.sequence = ++collectives_;
    return;
  }
  std::vector<int64_t>& messages = call.operation == Operation::Send ? sent_ : received_;
  call.sequence = ++messages[static_cast<size_t>(call.root)];
  if (call.sequence == 1) ++ledger_.groups.channels;
}

// A When::Now call begins when it is posted.
inline void Communicator::post(Call& call, When when, double now) {
  Event event;
  event.operation = name_of(call.operation);
  event.type = name_of(call.dtype).data();
  event.group = short_name_;
  event.sequence = call.sequence;
  event.elements = call.count;
  event.posted = now;
  if (when == When::Now) event.begun = now;
  call.event = ledger_.recorder.post(event);
}

Pending Communicator::begin(Stream& stream, Call& call, const Tensor& in, const Tensor& out,
                            When when) {
  // First the usual call on a CPU, which may take 200 ns: nothing is recorded, an Access does
  // nothing.
  const bool is_cpu = stream.device().kind == DeviceKind::Cpu;
  if (is_cpu && when == When::Now && stream.recorder() == nullptr) {
    run_now(call, traffic_of(call));
    return Pending();
  }
  stream.arena().count();
  if (stream.is_gpu()) call.stream = &stream;
  if (when == When::Later) return begin_later(stream, call, in, out);
  if (stream.recorder() != nullptr)
    stream.recorder()->wait_for(record(stream, call, in, out, When::Now));
  const Access access(stream);
  run_now(call, traffic_of(call));
  return Pending();
}

int Communicator::lane_of(TraceRecorder& recorder, const Call& call) {
  constexpr int kNone = -1;
  if (lanes_of_ != &recorder) {
    lanes_.assign(1 + 2 * static_cast<size_t>(size_), kNone);
    lanes_of_ = &recorder;
  }
  const bool is_sent = call.operation == Operation::Send;
  const bool is_message = sextant::is_message(call.operation);
  int& lane = lanes_[static_cast<size_t>(is_message ? 1 + (is_sent ? 0 : size_) + call.root : 0)];
  if (lane != kNone) return lane;
  TraceLane made{name_, TraceLane::Kind::Collective, name_};
  if (is_message) {
    made.name += concat(is_sent ? " send " : " receive ", call.root);
    made.kind = is_sent ? TraceLane::Kind::Send : TraceLane::Kind::Receive;
  }
  for (int rank = 0; rank < size_; ++rank) made.ranks.push_back(world_rank(rank));
  return lane = recorder.lane(made);
}

// A call with a single tensor passes it as `in`, whether it is read, written, or both.
uint32_t Communicator::record(Stream& stream, const Call& call, const Tensor& in, const Tensor& out,
                              When when) {
  TraceRecorder& recorder = *stream.recorder();
  recorder.begin(name_of(call.operation), lane_of(recorder, call));
  if (when == When::Later && !is_message(call.operation)) {
    for (const uint32_t op : followed_) recorder.wait_of_this(op);
    followed_.clear();
  }
  int64_t read = 0, written = 0;
  const auto add = [&](const Tensor& tensor, bool is_written) {
    recorder.operand(stream.operand_of(tensor, is_written));
    (is_written ? written : read) += tensor.bytes();
  };
  const Tensor& target = out ? out : in;
  if (in && call.in != nullptr) add(in, false);
  if (target && call.out != nullptr) add(target, true);
  TraceOp& op = recorder.end();
  op.read = read;
  op.written = written;
  op.sent = elements_sent(call, rank_, size_);
  op.sent_as = call.dtype;
  if (has_root(call.operation)) op.peer = call.root;
  op.is_control = call.traffic == TrafficClass::Control;
  return recorder.last();
}

void Communicator::order_after(const Pending& earlier) {
  if (!earlier) return;
  if (earlier.state_->stream->is_gpu()) start_after(earlier.state_->ticket);
  if (earlier.state_->stream->recorder() != nullptr) followed_.push_back(earlier.state_->op);
}

Pending Communicator::begin_later(Stream& stream, Call& call, const Tensor& in, const Tensor& out) {
  number(call);
  const double posted = ledger_.clock.now();
  post(call, When::Later, posted);
  traffic_of(call) += volume_of(call, rank_, size_);
  Pending pending;
  pending.state_.emplace(stream, call, in, out);
  if (stream.recorder() != nullptr) pending.state_->op = record(stream, call, in, out, When::Later);
  pending.state_->ticket = start(call);
  if (call.operation == Operation::Send) add_span("post", call, 0, posted, ledger_.clock.now());
  pending.communicator_ = this;
  return pending;
}

void Communicator::run_host(Call& call) {
  run_now(call, traffic_of(call));
}

void Communicator::run_now(Call& call, Traffic& traffic) {
  number(call);
  watch_ = 0;
  if (!announce(call) || ledger_.spans != nullptr) start_watch();
  const double posted = watch_ > 0 ? watch_ : ledger_.clock.recently();
  post(call, When::Now, posted);
  traffic += volume_of(call, rank_, size_);
  const Running running(*this, call, posted);
  execute(call);
}

void Communicator::wait_for(const Call& call, int64_t ticket) {
  const double begin = ledger_.clock.now();
  const auto count = [&] {
    const double end = ledger_.clock.now();
    add_exposed(call, end - begin);
    add_span("wait", call, 0, begin, end);
  };
  try {
    finish(ticket);
  } catch (...) {
    count();
    throw;
  }
  count();
}

void Communicator::add_exposed(const Call& call, double seconds) {
  ledger_.exposed_s += seconds;
  if (call.traffic != TrafficClass::Control)
    ledger_.exposed_by_axis[axis_][static_cast<size_t>(call.operation)] += seconds;
}

void Communicator::add_span(const char* kind, const Call& call, int lane, double begin,
                            double end) {
  if (ledger_.spans == nullptr) return;
  Span span{kind,         concat(name_of(call.operation), ' ', name_, " #", call.sequence),
            ledger_.rank, lane,
            begin,        end};
  span.is_received = call.operation == Operation::Receive;
  if (std::string_view(kind) == "comm")
    span.bytes =
        span.is_received ? call.count * size_of(call.dtype) : volume_of(call, rank_, size_).bytes;
  // The arrow of a message leads from where the rank's thread sent it to where it had it.
  if (lane == 0 &&
      (call.operation == Operation::Send ? std::string_view(kind) != "wait" : span.is_received)) {
    const int own = world_rank(rank_), peer = world_rank(call.root);
    span.message = concat(name_, ' ', span.is_received ? peer : own, '>',
                          span.is_received ? own : peer, " #", call.sequence);
  }
  ledger_.spans->add(std::move(span));
}

Communicator::Running::Running(Communicator& communicator, const Call& call)
    : communicator_(communicator), call_(call), lane_(1), begin_(communicator.ledger_.clock.now()) {
  communicator_.ledger_.recorder.begin(call.event, begin_);
}

void Communicator::Running::record_time() {
  Ledger& ledger = communicator_.ledger_;
  if (lane_ == 0) begin_ = communicator_.watch_;
  const double end = ledger.clock.now();
  ledger.recorder.end(call_.event, end);
  ledger.busy_s.fetch_add(end - begin_, std::memory_order_relaxed);
  if (lane_ == 0) communicator_.add_exposed(call_, end - begin_);
  communicator_.add_span("comm", call_, lane_, begin_, end);
}

}  // namespace sextant
