// Questions a script asks while it runs (walle.data.query), carried from the worker's thread to the
// loop, which owns the feature store, and the rows back. The worker waits meanwhile; the loop never
// waits for it.
#ifndef POSIX_QUERY_H
#define POSIX_QUERY_H

#include "pipeline/storage/feature_store.h"
#include "vm/vm.h"

struct posix_query;

// `wake` is called on the worker's thread when a question waits: then posix_query_serve is to be
// called on the loop. NOMEM.
BASE_NODISCARD enum base_status posix_query_new(void *ctx, void (*wake)(void *ctx),
                                                struct posix_query **out);
void posix_query_free(struct posix_query *query); // accepts NULL
// For a job: asks and waits. CLOSED once posix_query_close was called.
struct dev_vm_data_port posix_query_port(struct posix_query *query);
// Loop: answers what waits, from `features` (NULL: there are none).
void posix_query_serve(struct posix_query *query, struct dev_feature_store *features,
                       uint64_t now_us);
// Loop: the run is to end; whoever waits gets CLOSED. Open again before the next run.
void posix_query_close(struct posix_query *query);
void posix_query_open(struct posix_query *query);

#endif
