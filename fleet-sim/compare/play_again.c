// Plays runs once more. verify_main.c and diff_main.c call it on the main thread; it returns when
// the second run has ended. The line is taken apart here (model/repro_line.h) and the program
// started with its words: no shell sees it.
#include "compare/play_again.h"

#include "base/buffer.h"
#include "base/check.h"
#include "model/sim_exit.h"
#include "people/sim_local_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SIM_AGAIN_MORE_MAX  20u
#define SIM_AGAIN_WORDS_MAX (SIM_REPRO_WORDS_MAX + SIM_AGAIN_MORE_MAX + 4u)

static enum base_status line_read(struct sim_again *again, struct base_error *error)
{
    char path[PATH_MAX + 16];
    (void)snprintf(path, sizeof(path), "%s/" SIM_REPRO_FILE, again->first);
    struct base_buffer line = {0};
    BASE_TRY(sim_local_read(path, SIM_REPRO_BYTES_MAX, &line, error));
    char text[SIM_REPRO_BYTES_MAX] = "";
    size_t size = line.size < sizeof(text) ? line.size : sizeof(text) - 1;
    memcpy(text, line.data, size);
    text[size] = '\0';
    base_buffer_done(&line);
    if (sim_repro_read(text, &again->repro) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "%.200s: it is no line of a run", path);
    }
    return BASE_OK;
}

static bool has_word(const struct sim_repro *repro, const char *word)
{
    size_t size = strlen(word);
    for (uint32_t i = 0; i < repro->count; i++) {
        const char *rest = repro->words[i] + size;
        if (strncmp(repro->words[i], word, size) == 0 && (*rest == '\0' || *rest == '=')) {
            return true;
        }
    }
    return false;
}

enum base_status sim_again_open(struct sim_again *again, const char *out, const char *name,
                                struct base_error *error)
{
    *again = (struct sim_again){.child = {.pid = 0}};
    if (realpath(out, again->first) == NULL) {
        return base_error_set(error, BASE_ERR_IO, "%.200s: %s", out, strerror(errno));
    }
    int size = snprintf(again->child.folder, sizeof(again->child.folder), "%.*s/%s",
                        (int)sizeof(again->child.folder), again->first, name);
    if (size >= (int)sizeof(again->child.folder)) {
        return base_error_set(error, BASE_ERR_IO, "%.200s: %s", out, strerror(ENAMETOOLONG));
    }
    BASE_TRY(line_read(again, error));
    if (!has_word(&again->repro, "--virtual")) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%.100s is of a run in real time, which never comes again as it was: "
                              "conform compares two of them",
                              again->first);
    }
    return BASE_OK;
}

// The line's words, for the second run. What is asked of it besides stands behind them: acts of a
// branch are numbered behind the run's own, whose draws stay as they were.
static enum base_status words_make(const struct sim_again *again, const char *const *more,
                                   const char *words[SIM_AGAIN_WORDS_MAX], struct base_error *error)
{
    const struct sim_repro *repro = &again->repro;
    uint32_t count = 0;
    if (repro->count < 2 || strcmp(repro->words[1], "run") != 0) {
        return base_error_set(error, BASE_ERR_INVALID, "%.100s is not of a run", again->first);
    }
    words[count++] = repro->words[0];
    words[count++] = repro->words[1];
    words[count++] = "--again";
    words[count++] = again->child.folder;
    for (uint32_t i = 2; i < repro->count; i++) {
        words[count++] = repro->words[i];
    }
    for (uint32_t i = 0; more[i] != NULL; i++) {
        base_assert(i < SIM_AGAIN_MORE_MAX);
        words[count++] = more[i];
    }
    words[count] = NULL;
    return BASE_OK;
}

// The folder of the second run is to be the first one's own, and no way elsewhere.
static enum base_status folder_check(const struct sim_again *again, struct base_error *error)
{
    struct stat about;
    bool there = lstat(again->child.folder, &about) == 0;
    return there && !S_ISDIR(about.st_mode) ? base_error_set(error, BASE_ERR_IO, "%.200s: %s",
                                                             again->child.folder, strerror(ENOTDIR))
                                            : BASE_OK;
}

enum base_status sim_again_play(struct sim_again *again, const char *const *more,
                                struct base_error *error)
{
    const char *words[SIM_AGAIN_WORDS_MAX];
    int status = 0;
    base_assert(again->child.folder[0] != '\0');
    BASE_TRY(words_make(again, more, words, error));
    BASE_TRY(folder_check(again, error));
    again->child.from = again->repro.folder;
    BASE_TRY(sim_child_begin(&again->child, words, error));
    while (waitpid(again->child.pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return base_error_set(error, BASE_ERR_IO, "waiting for the run: %s", strerror(errno));
        }
    }
    again->child.pid = 0;
    bool wrote = WIFEXITED(status) && WEXITSTATUS(status) <= SIM_EXIT_THRESHOLD &&
                 WEXITSTATUS(status) != SIM_EXIT_USAGE && WEXITSTATUS(status) != SIM_EXIT_LOCAL;
    return wrote ? BASE_OK
                 : base_error_set(error, BASE_ERR_IO, "the run came to nothing: see %.200s.log",
                                  again->child.folder);
}
