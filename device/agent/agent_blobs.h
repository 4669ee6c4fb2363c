// What the agent hands to tasks by name: files that are read anew when a run starts (--give).
#ifndef AGENT_BLOBS_H
#define AGENT_BLOBS_H

#include "base/log.h"
#include "blobs/blob_files.h"

#include <argp.h>

struct agent_blobs {
    struct blob_files files;
    uint64_t turn; // of folders: the file that is next
    const struct base_log *log;
    bool silent; // the last read failed, and that was said
};

// What --give says; a bad one ends the program as argp_error does.
void agent_blobs_add(struct agent_blobs *blobs, const char *text, struct argp_state *state);
// The port over them, as long as `blobs` lives; without a file none.
struct dev_blob_port agent_blobs_port(struct agent_blobs *blobs);

#endif
