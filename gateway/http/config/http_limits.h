// Limits and deadlines of connections, streams and bodies. The table of settings fills them
// (http_config.c); each worker has a copy of its own, replaced by message on reload.
#ifndef GW_HTTP_LIMITS_H
#define GW_HTTP_LIMITS_H

#include <stdint.h>

struct gw_limits {
    uint64_t header_list_bytes;
    uint64_t header_table_bytes;
    uint64_t header_bytes_per_s;
    uint64_t body_bytes;
    uint64_t upload_bytes;
    uint64_t infer_bytes;
    uint64_t infer_memory_bytes; // of all workers; so the next seven
    uint64_t infer_answer_bytes;
    uint64_t body_bytes_total; // in memory
    uint64_t body_bytes_strangers;
    uint64_t body_bytes_actor;
    uint64_t spool_bytes_total; // in files
    uint64_t spool_bytes_strangers;
    uint64_t spool_bytes_actor;
    uint64_t body_rate_bytes;
    uint64_t streams;
    uint64_t connections;
    uint64_t connections_per_address;
    uint64_t connects_per_s;
    uint64_t connects_burst;
    uint64_t handshakes_per_s;
    uint64_t handshakes_burst;
    uint64_t resets_per_s;
    uint64_t resets_burst;
    uint64_t control_frames_per_s;
    uint64_t control_frames_burst;
    uint64_t continuations;
    uint64_t output_frames;
    uint64_t socket_buffer_bytes;
    uint64_t reply_rate_bytes;
    uint64_t handshake_ms;
    uint64_t header_ms;
    uint64_t body_ms;
    uint64_t body_total_ms;
    uint64_t idle_ms;
    uint64_t write_ms;
    uint64_t ping_ms;
    uint64_t drain_ms;
};

#endif
