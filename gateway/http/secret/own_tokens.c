// Files of the tokens a gateway makes for itself, and the notes that lead to one of them.
// gateway_main.c calls on the main thread: reads before the core opens, announces when the
// listeners are known, and takes the notes away at the end. The core asks through the port to keep
// a new token, before it counts. A data folder that others may write to is refused: they could put
// a token of their own there.
#include "http/secret/own_tokens.h"

#include "http/secret/secret_file.h"
#include "svc/access/secret.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENROLL_TOKEN_FILE "enroll.token"

// Who may write to the folder may put another file in the place of each that is here.
static enum base_status check_folder(const char *dir, struct base_error *error)
{
    struct stat about;
    if (stat(dir, &about) != 0) {
        return base_error_set(error, BASE_ERR_IO, "%s: %s", dir, strerror(errno));
    }
    if (about.st_uid != geteuid() && about.st_uid != 0) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: belongs to another user", dir);
    }
    if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: others may write there: chmod go-w %s",
                              dir, dir);
    }
    return BASE_OK;
}

static enum base_status path_in(const char *dir, const char *name, char out[PATH_MAX],
                                struct base_error *error)
{
    int size = snprintf(out, PATH_MAX, "%s/%s", dir, name);
    return size > 0 && size < PATH_MAX
               ? BASE_OK
               : base_error_set(error, BASE_ERR_TOO_LARGE, "path too long: %.100s", dir);
}

enum base_status gw_own_tokens_read(struct gw_own_tokens *tokens, const char *dir, const char *file,
                                    struct base_error *error)
{
    char path[PATH_MAX];
    *tokens = (struct gw_own_tokens){.dir = dir};
    BASE_TRY(check_folder(dir, error));
    if (file[0] != '\0') {
        return gw_secret_line_read(file, false, tokens->admin, sizeof(tokens->admin), error);
    }
    BASE_TRY(path_in(dir, GW_ADMIN_TOKEN_FILE, path, error));
    enum base_status status =
        gw_secret_line_read(path, true, tokens->admin, sizeof(tokens->admin), error);
    if (status == BASE_ERR_NOT_FOUND) {
        tokens->admin[0] = '\0';
        return BASE_OK;
    }
    tokens->noted = status == BASE_OK;
    return status;
}

static enum base_status keep(void *ctx, bool admin, const char *text, struct base_error *error)
{
    struct gw_own_tokens *tokens = ctx;
    char path[PATH_MAX];
    char line[GW_SECRET_TEXT_BYTES + 2];
    BASE_TRY(path_in(tokens->dir, admin ? GW_ADMIN_TOKEN_FILE : ENROLL_TOKEN_FILE, path, error));
    int size = snprintf(line, sizeof(line), "%s\n", text);
    if (!admin) {
        tokens->made_enrol = true;
        return gw_secret_file_write(path, line, (size_t)size, error);
    }
    tokens->noted = tokens->made_admin = true;
    return gw_secret_file_make(path, line, (size_t)size, error);
}

struct gw_first_token gw_own_tokens_port(struct gw_own_tokens *tokens)
{
    return (struct gw_first_token){.ctx = tokens, .keep = keep};
}

// A start that failed after it made a token said nothing of it; so each says where they are.
static void say_kept(const struct gw_own_tokens *tokens, const char *name, const char *whose,
                     const struct base_log *log)
{
    char path[PATH_MAX];
    if (path_in(tokens->dir, name, path, NULL) == BASE_OK && access(path, F_OK) == 0) {
        base_log_info(log, "gateway", "%s token is kept in %s", whose, path);
    }
}

void gw_own_tokens_announce(struct gw_own_tokens *tokens, const char *const addresses[GW_OWN_NOTES],
                            bool devices, const struct base_log *log)
{
    char path[PATH_MAX];
    struct base_error error = {0};
    if (devices && tokens->made_enrol) {
        printf("devices enrol with walle-device --enroll-token %s/" ENROLL_TOKEN_FILE "\n",
               tokens->dir);
        base_log_info(log, "gateway", "made an enrolment token: %s/" ENROLL_TOKEN_FILE,
                      tokens->dir);
    } else if (devices) {
        say_kept(tokens, ENROLL_TOKEN_FILE, "the first enrolment", log);
    }
    if (tokens->made_admin) {
        printf("walle of this user finds its token by itself; others need %s/" GW_ADMIN_TOKEN_FILE
               "\n",
               tokens->dir);
        base_log_info(log, "gateway", "made an administrator's token: %s/" GW_ADMIN_TOKEN_FILE,
                      tokens->dir);
    } else if (tokens->noted) {
        say_kept(tokens, GW_ADMIN_TOKEN_FILE, "the administrator's", log);
    }
    if (!tokens->noted || path_in(tokens->dir, GW_ADMIN_TOKEN_FILE, path, &error) != BASE_OK) {
        return;
    }
    for (uint32_t i = 0; i < GW_OWN_NOTES; i++) {
        if (addresses[i][0] != '\0' &&
            base_gateway_note_new(addresses[i], path, addresses[0], &tokens->notes[i], &error) !=
                BASE_OK) {
            base_log_warn(log, "gateway", "walle needs --token here, it finds none by itself: %s",
                          error.text);
        }
    }
}

void gw_own_tokens_done(struct gw_own_tokens *tokens)
{
    for (uint32_t i = 0; i < GW_OWN_NOTES; i++) {
        base_gateway_note_free(tokens->notes[i]);
        tokens->notes[i] = NULL;
    }
}
