#pragma once
// What tests can ask of the emulation.
extern "C" {
int emulated_nccl_alive();           // communicators that were not freed
void emulated_nccl_stall(int rank);  // the GPU of this rank of a communicator hangs; -1: none
void emulated_nccl_fail(int rank);   // calls of this rank fail; -1: none
}
