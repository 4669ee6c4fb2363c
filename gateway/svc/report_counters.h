// What is counted of reports, for /metrics and for how far the tally is complete. Written by the
// writer thread, read by anybody.
#ifndef GW_REPORT_COUNTERS_H
#define GW_REPORT_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

struct gw_report_counters {
    // Reports that the writer is at: how many, since when (UINT32_MAX: none).
    uint32_t open; // the writer thread's
    _Atomic uint32_t since_s;
    _Atomic uint64_t outcomes;
    _Atomic uint64_t repeated;
    _Atomic uint64_t gaps;
    _Atomic uint64_t unknown;
    _Atomic uint64_t unoffered;       // of devices that no stage lets in
    _Atomic uint64_t unproven;        // outcomes that no gate counts
    _Atomic uint64_t records_corrupt; // of devices, found by whoever reads them
    _Atomic uint64_t disk_refused;    // reports and enrolments, for want of disk
};

#endif
