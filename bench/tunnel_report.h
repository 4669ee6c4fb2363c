// What the load generators of the tunnel's benchmark have in common: times, counts and the CPU time
// of the server, printed as one JSON line.
#ifndef BENCH_TUNNEL_REPORT_H
#define BENCH_TUNNEL_REPORT_H

#include <stdint.h>

#define TUNNEL_SAMPLES_MAX 200000

struct tunnel_report {
    uint64_t pid; // of the server; 0: not told
    uint64_t began_us;
    uint64_t server_ticks;
    uint64_t own_ticks;
    uint64_t done; // messages acknowledged since the beginning
    uint64_t sample_count;
    double samples_ms[TUNNEL_SAMPLES_MAX];
};

// Resident memory of a process in bytes; 0: no such process.
uint64_t tunnel_report_memory(uint64_t pid);
void tunnel_report_begin(struct tunnel_report *report, uint64_t pid);
void tunnel_report_add(struct tunnel_report *report, uint64_t took_us);
void tunnel_report_print(struct tunnel_report *report, uint64_t payload_bytes);

#endif
