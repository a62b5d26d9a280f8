#include "bench/picture.h"

#include "base/error.h"

namespace sextant {

std::string picture_header(const std::string& title, int width, int height) {
  return concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
                "\" viewBox=\"0 0 ", width, " ", height, "\" role=\"img\" aria-label=\"", title,
                "\">\n") +
         "<style>\n"
         "text { font: 12px ui-sans-serif, system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; "
         "fill: #57606a; }\n"
         ".title { font-size: 14px; font-weight: 600; fill: #24292f; }\n"
         ".label { fill: #ffffff; font-weight: 600; text-anchor: middle; }\n"
         ".name { text-anchor: middle; }\n"
         ".empty { fill: none; stroke: #8c959f; stroke-width: 1; stroke-dasharray: 3 3; }\n"
         ".arrow { fill: none; stroke: #8c959f; stroke-width: 1.5; }\n"
         ".s0 { fill: #2f6fd0; } .s1 { fill: #b35900; } .s2 { fill: #1a7f4b; } .s3 { fill: "
         "#8f4bbd; }\n"
         "@media (prefers-color-scheme: dark) { text { fill: #9da7b3; } .title { fill: #e6edf3; } "
         ".label { fill: #ffffff; } }\n"
         "</style>\n";
}

std::string picture_title(const std::string& title, int x, int y) {
  return concat("<text class=\"title\" x=\"", x, "\" y=\"", y, "\">", title, "</text>\n");
}

}  // namespace sextant
