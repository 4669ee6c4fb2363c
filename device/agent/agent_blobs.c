// Files for tasks, read when a run starts: a camera's frame that another program writes, or a
// folder of frames, one a run. What cannot be read is not there for that run, and is said once,
// until it can be read again. On the agent's loop.
#include "agent_blobs.h"

static const struct dev_blob_set *hold(void *ctx, struct base_str task)
{
    struct agent_blobs *blobs = ctx;
    struct base_error error = {0};
    struct dev_blob_set *set = NULL;
    (void)task;
    if (blob_files_read(&blobs->files, blobs->turn++, &set, &error) != BASE_OK) {
        if (!blobs->silent) {
            base_log_warn(blobs->log, "device", "--give: %s", error.text);
        }
        blobs->silent = true;
        return NULL;
    }
    blobs->silent = false;
    return set;
}

static void release(void *ctx, const struct dev_blob_set *set)
{
    (void)ctx;
    blob_files_free(set);
}

void agent_blobs_add(struct agent_blobs *blobs, const char *text, struct argp_state *state)
{
    struct base_error error = {0};
    if (blob_files_add(&blobs->files, text, &error) != BASE_OK) {
        argp_error(state, "--give: %s", error.text);
    }
}

struct dev_blob_port agent_blobs_port(struct agent_blobs *blobs)
{
    if (blobs->files.count == 0) {
        return (struct dev_blob_port){.hold = NULL};
    }
    return (struct dev_blob_port){.ctx = blobs, .hold = hold, .release = release};
}
