// Spans of time in words.
#ifndef DURATION_H
#define DURATION_H

#include <stdbool.h>
#include <stdint.h>

#define DURATION_TEXT_MAX 40

// "88 seconds", "11 minutes", "24 hours", "3 days": in the largest unit of which there are two or
// more, rounded. False: it was rounded.
bool duration_text(uint64_t seconds, char out[DURATION_TEXT_MAX]);

#define TIME_TEXT_MAX 32

// A time in UTC, "2026-11-23T20:50:00Z"; to the minute without `seconds`.
const char *time_text(uint64_t unix_s, bool seconds, char out[TIME_TEXT_MAX]);

#endif
