// Semantic versions (semver.org 2.0.0), lenient where the field is: "9", "9.2" and a leading "v"
// are accepted (missing numbers are 0), as are leading zeros ("2026.01"); build metadata is
// ignored; pre-releases order below their release. A number is below 2^64, so that times of builds
// ("1.0.20261122235959") have room.
#ifndef POL_SEMVER_H
#define POL_SEMVER_H

#include <stdbool.h>
#include <stdint.h>

struct pol_semver {
    uint64_t numbers[4]; // major, minor, patch, and a fourth as used by some app stores
    const char *pre;     // borrowed from the parsed text; NULL when there is none
    uint32_t pre_size;
};

// False when `text` is not a version; *out is then untouched.
bool pol_semver_parse(const char *text, uint32_t size, struct pol_semver *out);
// <0, 0, >0.
int pol_semver_compare(const struct pol_semver *a, const struct pol_semver *b);

#endif
