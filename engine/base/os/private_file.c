// Opening and checking what is one user's alone. Called by programs at start (keys, tokens,
// certificates: gateway/http, gateway/signing, device_agent.c) and by `walle` before a request, for
// the note of a gateway on the same machine (gateway_note.c); any thread. Checks are made on the
// open descriptor, never on the name, so that nothing can be put in its place between the two;
// folders are entered one by one, following no link.
#include "base/os/private_file.h"

#include "base/check.h"
#include "base/os/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OTHERS        (S_IRWXG | S_IRWXO)
#define OTHERS_WRITE  (S_IWGRP | S_IWOTH)
#define PASSWD_BYTES  4096
#define FOLDER_MODE   0700
#define STATE_DEFAULT ".local/state"

static enum base_status failed(struct base_error *error, const char *path)
{
    return base_error_set(error, errno == ENOENT ? BASE_ERR_NOT_FOUND : BASE_ERR_IO, "%s: %s", path,
                          strerror(errno));
}

enum base_status base_private_check(int fd, const char *path, bool own, struct base_error *error)
{
    struct stat about;
    BASE_TRY(base_regular_check(fd, path, error));
    if (fstat(fd, &about) != 0) {
        return failed(error, path);
    }
    if (own && about.st_uid != geteuid()) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: belongs to another user", path);
    }
    if ((about.st_mode & OTHERS) != 0) {
        bool fits = 2 * strlen(path) + 40 < BASE_ERROR_TEXT_MAX; // else what to type goes first
        return base_error_set(error, BASE_ERR_INVALID, "%s%sothers may read it: chmod 600 %s",
                              fits ? path : "", fits ? ": " : "", path);
    }
    return BASE_OK;
}

enum base_status base_private_open(const char *path, bool own, int *out_fd,
                                   struct base_error *error)
{
    int fd = -1;
    BASE_TRY(base_regular_open(path, O_RDONLY | (own ? O_NOFOLLOW : 0), &fd, error));
    enum base_status status = base_private_check(fd, path, own, error);
    if (status != BASE_OK) {
        close(fd);
        return status;
    }
    *out_fd = fd;
    return BASE_OK;
}

enum base_status base_private_line(const char *path, bool own, char *out, size_t capacity,
                                   struct base_error *error)
{
    int fd = -1;
    BASE_TRY(base_private_open(path, own, &fd, error));
    ssize_t size = read(fd, out, capacity);
    if (size < 0) {
        enum base_status status = failed(error, path);
        close(fd);
        return status;
    }
    close(fd);
    const char *end = memchr(out, '\n', (size_t)size);
    size_t length = end != NULL ? (size_t)(end - out) : (size_t)size;
    if (length == capacity) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: the line is longer than %zu bytes",
                              path, capacity - 1);
    }
    out[length] = '\0';
    out[strcspn(out, "\r")] = '\0';
    return out[0] != '\0' ? BASE_OK : base_error_set(error, BASE_ERR_INVALID, "%s: empty", path);
}

// ---- Folders

// A user without a home in the environment has one in the table of users.
static bool find_state(char out[BASE_STATE_FOLDER_MAX])
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    char room[PASSWD_BYTES];
    struct passwd user;
    struct passwd *found = NULL;
    int size = -1;
    if (state != NULL && state[0] == '/') {
        size = snprintf(out, BASE_STATE_FOLDER_MAX, "%s", state);
    } else if (home != NULL && home[0] == '/') {
        size = snprintf(out, BASE_STATE_FOLDER_MAX, "%s/" STATE_DEFAULT, home);
    } else if (getpwuid_r(geteuid(), &user, room, sizeof(room), &found) == 0 && found != NULL) {
        size = snprintf(out, BASE_STATE_FOLDER_MAX, "%s/" STATE_DEFAULT, user.pw_dir);
    }
    return size > 0 && size < BASE_STATE_FOLDER_MAX;
}

// The folder and those above it, as far as they are missing.
static void make_above(char *path)
{
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(path, FOLDER_MODE); // what went wrong, the open below says
            *at = '/';
        }
    }
    (void)mkdir(path, FOLDER_MODE);
}

// From the folder `*at`, which is closed, to `name` in it: a folder of this user that nobody else
// writes to.
static enum base_status enter(int *at, const char *name, bool make, const char *path,
                              struct base_error *error)
{
    base_assert(*at >= 0);
    struct stat about;
    if (make) {
        (void)mkdirat(*at, name, FOLDER_MODE);
    }
    int fd = openat(*at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int reason = errno;
    close(*at);
    errno = reason;
    if (fd < 0 || fstat(fd, &about) != 0) {
        enum base_status status = failed(error, path);
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    if (about.st_uid != geteuid() || (about.st_mode & OTHERS_WRITE) != 0) {
        close(fd);
        return base_error_set(error, BASE_ERR_INVALID, "%s, folder %s: others may write there",
                              path, name);
    }
    *at = fd;
    return BASE_OK;
}

enum base_status base_private_folder(const char *name, bool make, int *out_fd,
                                     char out_path[BASE_STATE_FOLDER_MAX], struct base_error *error)
{
    base_assert(name[0] != '\0');
    base_assert(strchr(name, '/') == NULL); // one step, or enter() looks at its end alone
    char state[BASE_STATE_FOLDER_MAX];
    char path[BASE_STATE_FOLDER_MAX + 64];
    if (!find_state(state)) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "this user has no home folder");
    }
    if (make) {
        make_above(state);
    }
    int size = snprintf(path, sizeof(path), "%s/walle/%s", state, name);
    if (size < 0 || size >= BASE_STATE_FOLDER_MAX) {
        return base_error_set(error, BASE_ERR_INVALID, "%.100s: too long", state);
    }
    int fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return failed(error, state);
    }
    BASE_TRY(enter(&fd, "walle", make, path, error));
    BASE_TRY(enter(&fd, name, make, path, error));
    if (out_path != NULL) {
        memcpy(out_path, path, (size_t)size + 1);
    }
    *out_fd = fd;
    return BASE_OK;
}
