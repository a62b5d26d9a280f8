#include "nccl/emulated_recording.h"

#include <utility>

#include "base/error.h"
#include "tensor/gpu.h"

struct CUgraphExec_st {
  std::shared_ptr<Recording> recording;
};

namespace sextant::gpu {
namespace {

// The streams that are being recorded.
std::mutex recordings_mutex;
std::map<CUstream_st*, std::shared_ptr<Recording>> recordings;

std::shared_ptr<Recording> end_recording(CUstream_st* origin) {
  const std::lock_guard lock(recordings_mutex);
  std::shared_ptr<Recording> recording = recordings[origin];
  std::erase_if(recordings, [&](const auto& entry) { return entry.second == recording; });
  return recording;
}

}  // namespace

std::shared_ptr<Recording> recording_of(CUstream_st* stream) {
  const std::lock_guard lock(recordings_mutex);
  const auto found = recordings.find(stream);
  return found == recordings.end() ? nullptr : found->second;
}

void check_cuda(bool is_right, const char* what) {
  SXT_CHECK(is_right, Failure, "CUDA: ", what);
}

void wait_in_graph(const CUevent_st& event, CUstream_st* stream) {
  const std::shared_ptr<Recording>& recording = event.recording;
  check_cuda(recording_of(recording->origin) == recording,
             "cudaStreamWaitEvent failed: cudaErrorCapturedEvent");
  {
    const std::lock_guard lock(recordings_mutex);
    std::shared_ptr<Recording>& own = recordings[stream];
    check_cuda(!own || own == recording, "cudaStreamWaitEvent failed: cudaErrorStreamCaptureMerge");
    own = recording;
  }
  const std::lock_guard lock(recording->mutex);
  const size_t gate = event.gate;
  recording->add(stream, [gate](Recording::Gates& gates) { gates.await(gate); });
  const auto& [from, works] = recording->gate_at[gate];
  if (stream == recording->origin && recording->works[from] == works)
    recording->is_joined[from] = true;
}

Graph::~Graph() {
  delete handle_;
}
void Graph::begin() {
  auto recording = std::make_shared<Recording>();
  recording->origin = queue_.handle();
  {
    const std::lock_guard lock(recordings_mutex);
    recordings[queue_.handle()] = recording;
  }
  queue_.set_recording(true);
}
void Graph::end() {
  queue_.set_recording(false);
  const std::shared_ptr<Recording> recording = end_recording(queue_.handle());
  for (const auto& [stream, is_joined] : recording->is_joined)
    check_cuda(is_joined, "cudaStreamEndCapture failed: cudaErrorStreamCaptureUnjoined");
  handle_ = new CUgraphExec_st{recording};
}
void Graph::give_up() noexcept {
  queue_.set_recording(false);
  end_recording(queue_.handle());
}
void Graph::launch() {
  const std::shared_ptr<Recording>& recording = handle_->recording;
  const auto gates = std::make_shared<Recording::Gates>(recording->gates);
  for (const Recording::Work& work : recording->work)
    work.stream->push([run = work.run, gates] { run(*gates); });
}

}  // namespace sextant::gpu
