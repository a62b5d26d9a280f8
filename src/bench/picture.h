#pragma once
#include <string>

namespace sextant {

// A complete SVG for the docs, the same text on every run.
struct Picture {
  std::string name;  // file name without ".svg"
  std::string svg;
};

// Start of an SVG, with fonts and colours readable on white and on dark. Classes: title, name
// (centred), label (white, centred, on colour), empty, arrow, s0 ... s3 (a colour per rank).
std::string picture_header(const std::string& title, int width, int height);
// The title line.
std::string picture_title(const std::string& title, int x, int y);

}  // namespace sextant
