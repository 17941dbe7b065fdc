/* cuda.h - the backend of an NVIDIA GPU: a module of its own, loaded when it is asked for.
 *
 * So one binary serves machines with and without a GPU, needs no driver to start, and pays for
 * CUDA's libraries only when a run uses them. Without the module, a driver or a GPU the answer is
 * STATUS_WORLD and a sentence that says what is missing. */
#ifndef BACKEND_CUDA_CUDA_H
#define BACKEND_CUDA_CUDA_H
#include "backend/backend.h"

struct os;

/* Whether there may be a GPU, without loading anything. */
bool backend_cuda_likely(struct os *os);
/* nth: which of those that this process sees, counted from 0 and around: the number of a rank on its machine. */
enum status backend_cuda_open(struct arena *perm, i32 nth, struct backend **out, struct err *err);

/* The module's one door; the loader finds it by this name. */
#define CUDA_DOOR "frugal_cuda_open"
typedef enum status cuda_door(struct arena *perm, i32 nth, struct backend **out, struct err *err);
/* What it was built from, a text; the program has one of its own (cmake/shared.cmake). */
#define CUDA_BUILD "frugal_cuda_build"
extern const char frugal_cuda_build[];

#endif
