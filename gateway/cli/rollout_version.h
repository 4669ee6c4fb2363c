// The version a rollout is about, as the command's options name it: --version X.Y.Z, --build DIR or
// --manifest SHA256.
#ifndef ROLLOUT_VERSION_H
#define ROLLOUT_VERSION_H

#include "cli/cli.h"

#include "wire/digest.h"

bool rollout_version_given(const struct cli *cli);
// Its manifest, which the gateway must have registered, and the manifest's size.
enum cli_exit rollout_version_choose(const struct cli *cli, const char *task,
                                     struct wire_sha256 *out_manifest, uint64_t *out_bytes);
// Size of a registered version's manifest.
enum cli_exit rollout_version_bytes(const struct cli *cli, const char *task, const char *manifest,
                                    uint64_t *out_bytes);
// The counter of the newest completed rollout of version number `version`; REFUSED: it was never
// released.
enum cli_exit rollout_version_released(const struct cli *cli, const char *task, const char *version,
                                       uint64_t *out_counter);

#endif
