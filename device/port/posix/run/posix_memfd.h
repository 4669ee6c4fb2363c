// Sealed memory files: bytes that another process may map and nobody can change.
//
// A pool keeps the file of a version's models from run to run, named by the models' digests, so
// that a run does not copy them again. What was used longest ago makes room.
#ifndef POSIX_MEMFD_H
#define POSIX_MEMFD_H

#include "runner/runner_job.h"

#define POSIX_MEMFD_POOL_MAX   8                  // versions whose models are kept
#define POSIX_MEMFD_POOL_BYTES ((size_t)64 << 20) // of all of them, between runs

// One run's job as a sealed file; the caller closes it. NOMEM, IO, TOO_LARGE.
BASE_NODISCARD enum base_status posix_memfd_job(const struct dev_runner_job *job, int *out_fd,
                                                uint64_t *out_bytes);

struct posix_memfd_pool {
    struct posix_memfd {
        int fd;                      // -1: free
        struct wire_sha256 *digests; // of its models, in order; malloc
        uint32_t count;
        uint64_t bytes;
        uint64_t used; // a clock of uses
    } files[POSIX_MEMFD_POOL_MAX];
    uint64_t clock;
};
void posix_memfd_pool_init(struct posix_memfd_pool *pool);
void posix_memfd_pool_done(struct posix_memfd_pool *pool);
// The sealed file of a job's models, borrowed until the next call. Each model is hashed as it is
// copied, once for as long as the pool keeps the file. HASH: one is not what its digest says, and
// *out_damaged is its number; otherwise the codes of posix_memfd_job.
BASE_NODISCARD enum base_status posix_memfd_models(struct posix_memfd_pool *pool,
                                                   const struct dev_vm_job *vm, int *out_fd,
                                                   uint64_t *out_bytes, uint32_t *out_damaged);
// Closes what is over POSIX_MEMFD_POOL_BYTES: for the time between runs.
void posix_memfd_pool_trim(struct posix_memfd_pool *pool);

#endif
