#pragma once
// What tests can ask of the emulation.
extern "C" {
int emulated_nccl_alive();  // communicators that were not freed
// The GPU of this rank of a communicator hangs, after so many further calls of it; -1: none.
void emulated_nccl_stall(int rank, int calls = 0);
void emulated_nccl_fail(int rank);  // calls of this rank fail; -1: none
}
