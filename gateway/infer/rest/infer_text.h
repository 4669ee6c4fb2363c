// What the service tells of itself, as JSON of the Open Inference Protocol and as lines of
// /metrics.
#ifndef GW_INFER_TEXT_H
#define GW_INFER_TEXT_H

#include "infer/infer_service.h"

// Each in the arena; NULL data when there is no memory.
struct base_str gw_infer_server_json(struct base_arena *arena);
struct base_str gw_infer_metadata_json(struct base_arena *arena,
                                       const struct gw_infer_metadata *metadata);
// The index of the repository.
struct base_str gw_infer_index_json(struct base_arena *arena, const struct gw_infer_row *rows,
                                    size_t count);
// The statistics extension: of the versions that are loaded, of `version` alone unless it is empty.
struct base_str gw_infer_stats_json(struct base_arena *arena, const struct gw_infer_row *rows,
                                    size_t count, struct base_str version);

// Lines of /metrics. `service` is the service.
void gw_infer_metrics(void *service, void (*add)(void *ctx, const char *text), void *ctx);

#endif
