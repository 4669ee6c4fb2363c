// `walle-fleet-sim diff OUT1 OUT2`: the first event in which two runs in virtual time differ.
// fleet_main.c calls it, on the main thread. The digests say in which second and shard; then each
// run is played once more with the events of that second and shard written down (run --trace), and
// the two lists are compared. A run that does not come again as it was is said to be so: its folder
// or its program is another by now, or it is not deterministic.
#include "compare/diff_main.h"

#include "compare/play_again.h"
#include "digest/run_digest.h"
#include "model/sim_exit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX 512

struct side {
    const char *out;
    struct sim_digest digest;
    struct sim_again again;
    char file[SIM_CHILD_FOLDER_MAX + 16]; // of its trace
};

struct place {
    uint32_t line;
    uint32_t second;
};

// ---- Playing a run once more

// Whatever the run comes to, it is its trace that is asked for.
static enum base_status play(struct side *side, const struct place *place, struct base_error *error)
{
    char at[32];
    const char *const more[] = {"--trace", at, NULL};
    (void)snprintf(at, sizeof(at), "%u:%u", place->line, place->second);
    BASE_TRY(sim_again_open(&side->again, side->out, "again", error));
    (void)snprintf(side->file, sizeof(side->file), "%s/" SIM_TRACE_FILE, side->again.child.folder);
    BASE_TRY(sim_again_play(&side->again, more, error));
    return access(side->file, R_OK) == 0
               ? BASE_OK
               : base_error_set(error, BASE_ERR_IO, "%s was not played again: see %s.log",
                                side->out, side->again.child.folder);
}

// Was that second, in that shard, what it was the first time?
static enum base_status check_again(const struct side *side, const struct place *place,
                                    struct base_error *error)
{
    static const struct sim_leaf none = {{0, 0}};
    struct sim_digest again;
    const struct sim_digest *digest = &side->digest;
    BASE_TRY(sim_digest_read(side->again.child.folder, &again, error));
    size_t at = (size_t)place->second * digest->lines + place->line;
    const struct sim_leaf *before = place->second < digest->seconds ? &digest->leaves[at] : &none;
    const struct sim_leaf *after = place->second < again.seconds ? &again.leaves[at] : &none;
    bool same = again.lines == digest->lines && memcmp(before, after, sizeof(*before)) == 0;
    sim_digest_done(&again);
    return same ? BASE_OK
                : base_error_set(error, BASE_ERR_CONFLICT,
                                 "%s does not come again as it was: its folder, its files or the "
                                 "program are others by now, or what it does depends on more than "
                                 "its options",
                                 side->out);
}

// ---- Comparing

static void line_read(FILE *file, char line[TEXT_MAX])
{
    if (fgets(line, TEXT_MAX, file) == NULL) {
        (void)snprintf(line, TEXT_MAX, "nothing more in this second");
    }
    line[strcspn(line, "\n")] = '\0';
}

static enum base_status compare(const struct side sides[2], FILE *log, struct base_error *error)
{
    char lines[2][TEXT_MAX] = {"", ""};
    FILE *files[2] = {fopen(sides[0].file, "re"), fopen(sides[1].file, "re")};
    enum base_status status = files[0] != NULL && files[1] != NULL ? BASE_OK : BASE_ERR_IO;
    uint64_t same = 0;
    while (status == BASE_OK && !feof(files[0]) && !feof(files[1])) {
        line_read(files[0], lines[0]);
        line_read(files[1], lines[1]);
        if (strcmp(lines[0], lines[1]) != 0) {
            break;
        }
        same++;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (files[i] != NULL) {
            (void)fclose(files[i]);
        }
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "a trace cannot be read: %s", strerror(errno));
    }
    (void)fprintf(log, "the first event that differs, after %llu that are the same:\n",
                  (unsigned long long)same);
    (void)fprintf(log, "  %s: %s\n  %s: %s\n", sides[0].out, lines[0], sides[1].out, lines[1]);
    return BASE_OK;
}

static enum base_status tell_event(struct side sides[2], const struct place *place, FILE *log,
                                   struct base_error *error)
{
    for (uint32_t i = 0; i < 2; i++) {
        BASE_TRY(play(&sides[i], place, error));
        BASE_TRY(check_again(&sides[i], place, error));
    }
    return compare(sides, log, error);
}

static enum base_status diff(struct side sides[2], FILE *log, bool *out_same,
                             struct base_error *error)
{
    struct place place;
    char root[SIM_DIGEST_HEX + 1];
    BASE_TRY(sim_digest_read(sides[0].out, &sides[0].digest, error));
    BASE_TRY(sim_digest_read(sides[1].out, &sides[1].digest, error));
    if (sides[0].digest.lines != sides[1].digest.lines) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%u shards and %u: runs of so different numbers of devices are not "
                              "compared",
                              sides[0].digest.lines - 1, sides[1].digest.lines - 1);
    }
    *out_same = !sim_digest_part(&sides[0].digest, &sides[1].digest, &place.line, &place.second);
    if (*out_same) {
        sim_digest_root(&sides[0].digest, root);
        (void)fprintf(log, "the same run: digest %s, %u s\n", root, sides[0].digest.seconds);
        return BASE_OK;
    }
    bool core = place.line + 1 == sides[0].digest.lines;
    (void)fprintf(log, "they part in second %u, ", place.second);
    (void)fprintf(log, core ? "at the gateway's core\n" : "in shard %u\n", place.line);
    (void)fflush(log);
    return tell_event(sides, &place, log, error);
}

int sim_diff_main(int argc, char **argv, FILE *log)
{
    if (argc != 3 || argv[1][0] == '-') {
        bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;
        (void)fprintf(
            asked ? log : stderr,
            "Usage: walle-fleet-sim diff OUT1 OUT2\n"
            "The first event in which two runs in virtual time differ, by the digests in "
            "the folders of\ntheir reports (run --virtual DIR --out OUT). Both are played "
            "once more, in OUT1/again and OUT2/again.\n"
            "Exit status: 0 they are the same, 1 they differ, 2 usage, 4 files, or a run "
            "that does not come again\nas it was.\n");
        return asked ? SIM_EXIT_OK : SIM_EXIT_USAGE;
    }
    struct base_error error = {.status = BASE_OK};
    struct side *sides = calloc(2, sizeof(*sides));
    bool same = false;
    if (sides == NULL) {
        return SIM_EXIT_LOCAL;
    }
    sides[0].out = argv[1];
    sides[1].out = argv[2];
    enum base_status status = diff(sides, log, &same, &error);
    if (status != BASE_OK) {
        (void)fprintf(stderr, "walle-fleet-sim: %s\n", error.text);
    }
    sim_digest_done(&sides[0].digest);
    sim_digest_done(&sides[1].digest);
    free(sides);
    return status != BASE_OK ? SIM_EXIT_LOCAL : same ? SIM_EXIT_OK : SIM_EXIT_FAILED;
}
