// For tests/python: shows what this project's tokenizer makes of texts.
//   tokenizer_probe corpus BYTES             the built-in corpus, documents joined
//   tokenizer_probe encode FILE [special]    stdin: "<length>\n<bytes>" per text; stdout: a line of
//                                            ids per text
#include <cstdio>
#include <iostream>
#include <string>

#include "base/error.h"
#include "base/parse.h"
#include "base/storage.h"
#include "data/corpus.h"
#include "data/tokenizer.h"

namespace {

using namespace sextant;

void encode_all(const std::string& path, Specials specials) {
  DiskStorage storage;
  const Tokenizer tokenizer = Tokenizer::open(storage, path);
  Encoder encoder(tokenizer);
  std::string header, text, line;
  while (std::getline(std::cin, header)) {
    text.resize(static_cast<size_t>(parse_int(header).value()));
    std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
    std::vector<int32_t> ids;
    encoder.encode(ids, text, specials);
    line.clear();
    for (const int32_t id : ids) line += (line.empty() ? "" : " ") + std::to_string(id);
    std::cout << line << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    const std::string mode = argc > 2 ? argv[1] : "";
    if (mode == "corpus") {
      for (const std::string& document :
           builtin_documents(kBuiltinSeed, parse_int(argv[2]).value()))
        std::cout << document;
    } else if (mode == "encode") {
      encode_all(argv[2], argc > 3 ? Specials::With : Specials::Without);
    } else {
      std::cerr << "usage: tokenizer_probe corpus BYTES | encode FILE [special]\n";
      return 2;
    }
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return exit_code(error.fault());
  }
  return 0;
}
