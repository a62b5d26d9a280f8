#pragma once
#include <string>

namespace sextant {

// A drawing for the documents: a whole SVG document, the same text on every run.
struct Picture {
  std::string name;  // of its file, without ".svg"
  std::string svg;
};

// What they have in common: the begin of a document with fonts and colours that can be read on
// white and on dark. Classes: title, name (in the middle), label (white, in the middle, for
// coloured ground), empty, arrow, s0 ... s3 (a colour for each rank).
std::string picture_header(const std::string& title, int width, int height);
// Its first line.
std::string picture_title(const std::string& title, int x, int y);

}  // namespace sextant
