// A threshold of a run: what a measure has to be at its end (report/thresholds.h reads and judges).
#ifndef SIM_THRESHOLD_H
#define SIM_THRESHOLD_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_THRESHOLDS_MAX     32
#define SIM_THRESHOLD_TEXT_MAX 96 // with the byte behind it

enum sim_comparison {
    SIM_COMPARISON_LESS,
    SIM_COMPARISON_AT_MOST,
    SIM_COMPARISON_MORE,
    SIM_COMPARISON_AT_LEAST,
    SIM_COMPARISON_EQUAL,
    SIM_COMPARISON_OTHER,
    SIM_COMPARISON_COUNT
};

struct sim_threshold {
    char text[SIM_THRESHOLD_TEXT_MAX]; // as it was given
    uint8_t measure;                   // number in the list of report/measures.h
    uint8_t part;                      // of a latency: which of it
    uint8_t comparison;                // enum sim_comparison
    double limit;                      // microseconds, share of one, or a number
};

// What a threshold came to. Nothing measured never holds.
struct sim_threshold_result {
    bool measured;
    bool holds;
    double value; // in the unit of the limit
};

#endif
