// Notes of gateways: written at start and removed at the end by the gateway's main thread, looked
// up by operators' programs before a request.
//
// A gateway holds the exclusive lock of its note. Who finds a note asks for a shared one: several
// may at once, and none takes another's for a gateway's. While it is held no gateway can make the
// note its own, so the note may go; the folder's lock keeps two who remove apart.
#include "base/os/gateway_note.h"

#include "base/check.h"
#include "base/os/private_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER     "gateways"
#define FIRST_LINE "walle-gateway note 1\n"
#define TRY_US     10000
#define CANDIDATES 4
#define PATH_BYTES (BASE_STATE_FOLDER_MAX + BASE_GATEWAY_ADDRESS_MAX + 1)

struct base_gateway_note {
    int folder;
    int fd; // locked
    char name[BASE_GATEWAY_ADDRESS_MAX];
};

// The network an address is of: containers have their own 127.0.0.1.
static void name_network(char out[64])
{
    ssize_t size = readlink("/proc/self/ns/net", out, 63);
    out[size > 0 ? size : 0] = '\0';
}

static bool is_address(const char *text)
{
    size_t size = strlen(text);
    return size > 0 && size < BASE_GATEWAY_ADDRESS_MAX &&
           strspn(text, "0123456789abcdef.:[]%") == size && text[0] != '.';
}

// Where a note is, for texts: what mends it is typed with its folder.
static const char *name_path(const char *dir, const char *name, char out[PATH_BYTES])
{
    (void)snprintf(out, PATH_BYTES, "%s/%s", dir, name);
    return out;
}

// Is the open file the one in the folder?
static bool is_current(int folder, const char *name, int fd)
{
    struct stat here;
    struct stat there;
    return fstat(fd, &here) == 0 && fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

// ---- Notes of the dead

// A note of a gateway that died, with its shared lock held.
static void discard(int folder, const char *name, int fd)
{
    if (flock(folder, LOCK_EX | LOCK_NB) == 0) {
        if (is_current(folder, name, fd)) {
            (void)unlinkat(folder, name, 0);
        }
        (void)flock(folder, LOCK_UN);
    }
}

// Removes what gateways that died have left. What is no note stays.
static void sweep(int folder)
{
    base_assert(folder >= 0);
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy >= 0 ? fdopendir(copy) : NULL;
    if (list == NULL) {
        if (copy >= 0) {
            close(copy);
        }
        return;
    }
    const struct dirent *entry = readdir(list);
    for (unsigned i = 0; entry != NULL && i < BASE_GATEWAY_NOTES_SWEPT; i++) {
        int fd = is_address(entry->d_name)
                     ? openat(folder, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                     : -1;
        if (fd >= 0 && base_private_check(fd, entry->d_name, true, NULL) == BASE_OK &&
            flock(fd, LOCK_SH | LOCK_NB) == 0) {
            discard(folder, entry->d_name, fd);
        }
        if (fd >= 0) {
            close(fd);
        }
        entry = readdir(list);
    }
    closedir(list);
}

// ---- Writing

// The note's file, locked. LIMIT: somebody else keeps it locked.
static enum base_status open_locked(int folder, const char *dir, const char *name, int *out_fd,
                                    struct base_error *error)
{
    base_assert(is_address(name)); // so it leads to nowhere but into the folder
    char path[PATH_BYTES];
    (void)name_path(dir, name, path);
    for (unsigned i = 0; i < BASE_GATEWAY_NOTE_TRIES; i++) {
        int fd = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (fd < 0) {
            return base_error_set(error, BASE_ERR_IO, "%s: %s", path, strerror(errno));
        }
        enum base_status status = base_private_check(fd, path, true, error);
        if (status != BASE_OK) {
            close(fd);
            return status;
        }
        bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
        if (locked && is_current(folder, name, fd)) {
            *out_fd = fd;
            return BASE_OK;
        }
        close(fd);
        if (!locked) {
            usleep(TRY_US);
        }
    }
    return base_error_set(error, BASE_ERR_LIMIT, "another gateway has noted %s", name);
}

static enum base_status fill(int fd, const char *name, const char *token_path,
                             const char *tls_address, struct base_error *error)
{
    char network[64];
    char text[BASE_GATEWAY_NOTE_BYTES_MAX];
    char *whole = realpath(token_path, NULL);
    name_network(network);
    bool fits = whole != NULL && strchr(whole, '\n') == NULL;
    int size =
        fits ? snprintf(text, sizeof(text), FIRST_LINE "%s\n%s\n%s\n", network, tls_address, whole)
             : -1;
    free(whole);
    if (size < 0 || size >= (int)sizeof(text)) {
        return base_error_set(error, BASE_ERR_INVALID, "%.100s: no path to note", token_path);
    }
    if (ftruncate(fd, 0) != 0 || write(fd, text, (size_t)size) != (ssize_t)size) {
        return base_error_set(error, BASE_ERR_IO, "%s: %s", name, strerror(errno));
    }
    return BASE_OK;
}

enum base_status base_gateway_note_new(const char *address, const char *token_path,
                                       const char *tls_address, struct base_gateway_note **out_note,
                                       struct base_error *error)
{
    if (!is_address(address) || (tls_address[0] != '\0' && !is_address(tls_address))) {
        return base_error_set(error, BASE_ERR_INVALID, "'%.60s' is no address", address);
    }
    struct base_gateway_note *note = calloc(1, sizeof(*note));
    if (note == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for a note");
    }
    note->fd = note->folder = -1;
    memcpy(note->name, address, strlen(address) + 1);
    char dir[BASE_STATE_FOLDER_MAX];
    enum base_status status = base_private_folder(FOLDER, true, &note->folder, dir, error);
    if (status == BASE_OK) {
        sweep(note->folder);
        status = open_locked(note->folder, dir, note->name, &note->fd, error);
    }
    if (status == BASE_OK) {
        status = fill(note->fd, note->name, token_path, tls_address, error);
    }
    if (status != BASE_OK) {
        base_gateway_note_free(note);
        return status;
    }
    base_assert(note->fd >= 0); // locked until base_gateway_note_free
    base_assert(note->folder >= 0);
    *out_note = note;
    return BASE_OK;
}

void base_gateway_note_free(struct base_gateway_note *note)
{
    if (note == NULL) {
        return;
    }
    if (note->fd >= 0) {
        if (is_current(note->folder, note->name, note->fd)) {
            (void)unlinkat(note->folder, note->name, 0);
        }
        close(note->fd);
    }
    if (note->folder >= 0) {
        close(note->folder);
    }
    free(note);
}

// ---- Finding

// 127.0.0.0/8 in four plain numbers, as gateways note it.
static bool is_loopback_v4(struct base_str host)
{
    unsigned parts = 1;
    size_t digits = 0;
    for (size_t i = 0; i < host.size; i++) {
        bool digit = host.data[i] >= '0' && host.data[i] <= '9';
        if (!digit && (host.data[i] != '.' || digits == 0)) {
            return false;
        }
        digits = digit ? digits + 1 : 0;
        parts += digit ? 0 : 1;
    }
    return parts == 4 && digits > 0 && base_str_starts(host, BASE_STR("127."));
}

struct candidates {
    char names[CANDIDATES][BASE_GATEWAY_ADDRESS_MAX];     // of notes
    char addresses[CANDIDATES][BASE_GATEWAY_ADDRESS_MAX]; // to go to
    unsigned count;
};

static void add(struct candidates *all, struct base_str host, struct base_str reached,
                uint16_t port)
{
    char *name = all->names[all->count];
    int size = snprintf(name, BASE_GATEWAY_ADDRESS_MAX, "%.*s:%u", (int)host.size, host.data, port);
    if (host.size < BASE_GATEWAY_ADDRESS_MAX && size > 0 && size < BASE_GATEWAY_ADDRESS_MAX &&
        is_address(name)) {
        (void)snprintf(all->addresses[all->count], BASE_GATEWAY_ADDRESS_MAX, "%.*s:%u",
                       (int)reached.size, reached.data, port);
        all->count++;
    }
}

// The notes that may speak of the target. One of a gateway on all addresses speaks of this machine.
static void list(const struct base_gateway_target *target, struct candidates *out)
{
    struct base_str v4 = BASE_STR("127.0.0.1");
    struct base_str v6 = BASE_STR("[::1]");
    struct base_str host = target->host;
    bool name = base_str_equal(host, BASE_STR("localhost"));
    bool loopback_v4 = is_loopback_v4(host);
    bool loopback_v6 = base_str_equal(host, v6);
    out->count = 0;
    if (name || loopback_v4) {
        add(out, name ? v4 : host, name ? v4 : host, target->port);
        add(out, BASE_STR("0.0.0.0"), name ? v4 : host, target->port);
    }
    if (name || loopback_v6) {
        add(out, v6, v6, target->port);
        add(out, BASE_STR("[::]"), v6, target->port);
    }
    if (out->count == 0 && target->sealed) {
        add(out, host, host, target->port);
    }
}

// Cuts a line off. NULL: there is none that is whole.
static char *take_line(char **text)
{
    char *line = *text;
    char *end = strchr(line, '\n');
    if (end == NULL) {
        return NULL;
    }
    *end = '\0';
    *text = end + 1;
    return line;
}

// What a note of this network says. False: it is not whole.
static bool parse(char *text, struct base_gateway_found *out, const char **out_path)
{
    char network[64];
    name_network(network);
    if (strncmp(text, FIRST_LINE, strlen(FIRST_LINE)) != 0) {
        return false;
    }
    text += strlen(FIRST_LINE);
    const char *from = take_line(&text);
    const char *tls = from != NULL ? take_line(&text) : NULL;
    const char *path = tls != NULL ? take_line(&text) : NULL;
    if (path == NULL || *text != '\0' || path[0] != '/' || strcmp(from, network) != 0 ||
        (tls[0] != '\0' && !is_address(tls))) {
        return false;
    }
    memcpy(out->tls_address, tls, strlen(tls) + 1);
    *out_path = path;
    return true;
}

// A note that is open: what it says if its gateway lives; else it goes.
static enum base_status follow(int folder, const char *name, int fd, struct base_gateway_found *out,
                               struct base_error *error)
{
    char text[BASE_GATEWAY_NOTE_BYTES_MAX];
    const char *path = NULL;
    if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
        discard(folder, name, fd);
        return BASE_ERR_NOT_FOUND;
    }
    ssize_t size = read(fd, text, sizeof(text) - 1);
    text[size > 0 ? size : 0] = '\0';
    if (!parse(text, out, &path)) {
        return BASE_ERR_NOT_FOUND; // being written, or of another network
    }
    return base_private_line(path, true, out->token, sizeof(out->token), error);
}

static enum base_status look(int folder, const char *dir, const char *name,
                             struct base_gateway_found *out, struct base_error *error)
{
    char path[PATH_BYTES];
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        return BASE_ERR_NOT_FOUND;
    }
    if (fd < 0) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: %s", name_path(dir, name, path),
                              errno == ELOOP ? "a symbolic link" : strerror(errno));
    }
    enum base_status status = base_private_check(fd, name_path(dir, name, path), true, error);
    if (status == BASE_OK) {
        status = follow(folder, name, fd, out, error);
    }
    close(fd);
    return status;
}

enum base_status base_gateway_note_find(const struct base_gateway_target *target,
                                        struct base_gateway_found *out, struct base_error *error)
{
    struct candidates all;
    struct base_gateway_found found;
    int folder = -1;
    struct base_error unused;
    char dir[BASE_STATE_FOLDER_MAX];
    list(target, &all);
    if (all.count == 0) {
        return BASE_ERR_NOT_FOUND;
    }
    enum base_status status = base_private_folder(FOLDER, false, &folder, dir, &unused);
    if (status != BASE_OK) {
        if (status != BASE_ERR_NOT_FOUND && error != NULL) {
            *error = unused;
        }
        return status;
    }
    base_assert(all.count <= CANDIDATES);
    status = BASE_ERR_NOT_FOUND;
    for (unsigned i = 0; i < all.count && status == BASE_ERR_NOT_FOUND; i++) {
        status = look(folder, dir, all.names[i], &found, error);
        memcpy(found.address, all.addresses[i], sizeof(found.address));
    }
    close(folder);
    if (status == BASE_OK) {
        *out = found;
    }
    return status;
}
