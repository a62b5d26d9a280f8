#pragma once
#include <span>

namespace sextant {

// Distances of two tensors of the same size; NaN counts as infinitely far.
bool has_same_bits(std::span<const float> a, std::span<const float> b);
bool has_same_values(std::span<const float> a, std::span<const float> b);  // -0 is 0
double largest_distance(std::span<const float> a, std::span<const float> b);
double rms_distance(std::span<const float> a, std::span<const float> b);
// Without the farthest few elements: one whose tiny gradient changed its sign moves by a whole
// learning rate, whatever the others do.
double typical_distance(std::span<const float> a, std::span<const float> b);

double largest(std::span<const float> values);  // absolute
double rms(std::span<const float> values);
double distance(double a, double b);
// difference / scale; 0 and infinity stay.
double relative(double difference, double scale);

}  // namespace sextant
