#pragma once
#include "plan/case.h"
#include "plan/constants.h"

namespace sextant {

// Formats of 8 bits and fewer.
bool is_narrow(NumberFormat format);

// Dense peak of a GPU in FLOP/s; 0: its file has none for the format.
double peak_of(const Hardware& hardware, NumberFormat format);

// Share of its rates that a GPU keeps below the power they are stated for.
double power_share(const Hardware& hardware, const Constants& constants);

// FLOP/s of GEMMs in a format, at the best shape.
double gemm_rate(const Hardware& hardware, const Constants& constants, NumberFormat format);

// Seconds of a GEMM [m, k] x [k, n] with inputs of the given format.
double gemm_seconds(const Hardware& hardware, const Constants& constants, NumberFormat format,
                    double m, double n, double k);

}  // namespace sextant
