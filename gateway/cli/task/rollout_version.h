// The version a rollout is about, as the command's options name it: --version X.Y.Z, --build DIR or
// --manifest SHA256.
#ifndef ROLLOUT_VERSION_H
#define ROLLOUT_VERSION_H

#include "cli/base/cli.h"

#include "wire/manifest.h"

struct rollout_version {
    struct wire_sha256 manifest;
    uint64_t manifest_bytes;
    char number[WIRE_VERSION_TEXT_MAX + 1]; // "1.2.0"
};

bool rollout_version_given(const struct cli *cli);
// As the gateway has registered it.
enum cli_exit rollout_version_choose(const struct cli *cli, const char *task,
                                     struct rollout_version *out);
// Says on standard error, of a version that was just pushed, that others of the task have its
// number.
void rollout_version_warn_twins(const struct cli *cli, const char *task, const char *version,
                                const struct wire_sha256 *manifest);
// The manifest that begins so, of the versions of all tasks that the gateway has, for the caller.
// REFUSED: none does; USAGE: several do, which are named.
enum cli_exit rollout_version_of_prefix(const struct cli *cli, const char *prefix,
                                        char out[WIRE_SHA256_HEX + 1]);
// The counter of the newest completed rollout of version number `version`; REFUSED: it was never
// released.
enum cli_exit rollout_version_released(const struct cli *cli, const char *task, const char *version,
                                       uint64_t *out_counter);

#endif
