#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "bench/kept_file.h"
#include "bench/kept_peak.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/run_demo.h"
#include "tensor/device.h"

namespace sextant::cli {
namespace {

int run(const std::string& out, Context& context) {
  RunOptions options;
  options.peak_flops =
      kept_fma_peak(context.storage, cache_directory(), available_cores(), DType::F32, context.log);
  const DemoResult result =
      run_demo(out, options, {context.storage, context.clock, context.log, context.stop});
  if (context.stop.load()) return 130;
  if (context.json) {
    print_json({{"loss_first", result.loss_first},
                {"loss_last", result.loss_last},
                {"verify", result.verify},
                {"resume", result.resume},
                {"text", result.text}});
  } else {
    print_line(fmt::format(
        "\nloss {:.4f} -> {:.4f}; 8 ranks against one: {}; resumed on 4 ranks against the whole "
        "run: {}\n",
        result.loss_first, result.loss_last, result.verify, result.resume));
    print_line("what it has learned to write:\n" + result.text);
    print_line("\nnext: sextant generate " + out +
               "/checkpoints --prompt \"Once \", sextant train configs/gpt2-s.toml");
  }
  return result.resume == "bug" || result.verify == "bug" || result.loss_last >= result.loss_first
             ? 1
             : 0;
}

}  // namespace

Command demo_command() {
  const auto out = std::make_shared<std::string>("out/demo");
  return {"demo",
          "A tour in under a minute: train on 8 ranks, verify, resume on 4, generate text",
          {{"--out", "Directory for its files", out.get()}},
          [out](Context& context) { return run(*out, context); },
          Accepts::OptionsOnly,
          Stops::WhenReady,
          {},
          "stopping after this step; Ctrl-C again ends at once"};
}

}  // namespace sextant::cli
