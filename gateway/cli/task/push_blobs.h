// Uploading what a gateway says it lacks of a build.
#ifndef PUSH_BLOBS_H
#define PUSH_BLOBS_H

#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/task/task_build.h"

#define PUSH_PACK_BYTES (1024u * 1024) // exclusive blobs go together until a pack has as many
#define PUSH_PACK_BLOBS 1000u

// `answer` is a 409 with `missing`. Shared blobs go one by one, exclusive ones in packs, to where
// nobody else gets them. *uploaded grows by what was sent.
enum cli_exit push_blobs(const struct cli *cli, const char *folder, const struct task_build *build,
                         const json_t *answer, uint64_t *uploaded);

#endif
