// Any text as versions, one a line: no crash, and the order of those accepted is one:
// antisymmetric, reflexive, transitive.
#include "fuzz_target.h"

#include "base/check.h"
#include "policy/semver.h"

#include <string.h>

#define VERSIONS_MAX 6

static int sign(int value)
{
    return (value > 0) - (value < 0);
}

static size_t parse_lines(const uint8_t *data, size_t size, struct pol_semver *versions)
{
    size_t count = 0;
    size_t start = 0;
    for (size_t at = 0; at <= size && count < VERSIONS_MAX; at++) {
        if (at < size && data[at] != '\n') {
            continue;
        }
        const char *line = (const char *)data + start;
        count += pol_semver_parse(line, (uint32_t)(at - start), &versions[count]);
        start = at + 1;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pol_semver v[VERSIONS_MAX];
    size_t count = parse_lines(data, size, v);
    for (size_t i = 0; i < count; i++) {
        base_check(pol_semver_compare(&v[i], &v[i]) == 0);
        for (size_t j = 0; j < count; j++) {
            int ij = sign(pol_semver_compare(&v[i], &v[j]));
            base_check(ij == -sign(pol_semver_compare(&v[j], &v[i])));
            for (size_t k = 0; k < count; k++) {
                int jk = sign(pol_semver_compare(&v[j], &v[k]));
                int ik = sign(pol_semver_compare(&v[i], &v[k]));
                base_check(!(ij <= 0 && jk <= 0) || ik <= 0);
            }
        }
    }
    return 0;
}
