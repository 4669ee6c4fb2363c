// The manifest: the immutable content of a version, listing every file by hash. Its SHA-256 names
// the version.
//
//   manifest := "WLM2", text8 task_name, text8 version (semantic), u16 runtime_abi, text8 entry,
//               u32 heap_kib, u32 time_ms, u32 every_s, u8 extras, [exclusive: root[32]],
//               varint config_size, config (JSON), [16: varint declaration_size, declaration],
//               varint file_count, file_count x file
//   extras   := exclusive (0, 1, 2), 16 added: a declaration follows (wire/declaration.h)
//   file     := u8 kind, text8 name, varint bytes, sha256[32]
#ifndef WIRE_MANIFEST_H
#define WIRE_MANIFEST_H

#include "base/cursor.h"
#include "wire/digest.h"

BASE_C_BEGIN

#define WIRE_MANIFEST_BYTES_MAX  (256 * 1024)
#define WIRE_MANIFEST_FILES_MAX  256
#define WIRE_MANIFEST_CONFIG_MAX (16 * 1024)
#define WIRE_FILE_NAME_MAX       96 // relative, [A-Za-z0-9._/-], no empty, "." or ".." parts
#define WIRE_FILE_BYTES_MAX      (1024ull * 1024 * 1024)
#define WIRE_VERSION_TEXT_MAX    64 // [0-9A-Za-z.+-]
#define WIRE_RUNTIME_ABI         1

enum wire_file_kind {
    WIRE_FILE_SCRIPT = 1, // .mpy bytecode, importable under its name without suffix
    WIRE_FILE_MODEL = 2,
    WIRE_FILE_DATA = 3,
};

// Does a version hold files for single devices or users (wire/trust/exclusive_files.h)?
enum wire_exclusive {
    WIRE_EXCLUSIVE_NONE = 0,
    WIRE_EXCLUSIVE_OPTIONAL = 1, // it runs without, where nobody made any
    WIRE_EXCLUSIVE_REQUIRED = 2, // it is not for devices without
    WIRE_EXCLUSIVE_COUNT
};

struct wire_manifest_file {
    enum wire_file_kind kind;
    struct base_str name; // borrowed
    uint64_t bytes;
    struct wire_sha256 digest;
};

struct wire_manifest {
    struct base_str task_name;
    struct base_str version; // semantic version, for people
    uint16_t runtime_abi;
    struct base_str entry; // name of the script file that runs, without suffix
    uint32_t heap_kib;     // VM heap; 0: default
    uint32_t time_ms;      // wall budget of a run; 0: default
    uint32_t every_s;      // run again this often; 0: once after activation
    enum wire_exclusive exclusive;
    struct wire_sha256 exclusive_root; // of the tree over all exclusive manifests; zero: none
    struct base_str config;            // JSON object given to the script; may be empty
    struct base_str declaration;       // bytes of a valid wire_declaration, or empty
    uint32_t file_count;
    struct wire_manifest_file files[WIRE_MANIFEST_FILES_MAX];
};

BASE_NODISCARD enum base_status wire_manifest_encode(const struct wire_manifest *manifest,
                                                     uint8_t *out, size_t capacity,
                                                     size_t *out_size);
// INVALID: names, doubled files, a script not called *.mpy, entry that is no script; UNSUPPORTED:
// magic; TOO_LARGE, TRUNCATED. On failure only file_count (0) of *out is defined.
BASE_NODISCARD enum base_status wire_manifest_parse(const uint8_t *bytes, size_t size,
                                                    struct wire_manifest *out);
// Likewise, of bytes that wire_manifest_parse took before: what it judged is not judged again.
BASE_NODISCARD enum base_status wire_manifest_again(const uint8_t *bytes, size_t size,
                                                    struct wire_manifest *out);

// Why a file cannot be called `name`, as "is not 1 to 96 bytes long"; NULL: it can. Static text.
const char *wire_file_name_fault(struct base_str name);
// One entry, for the lists of files in this folder.
bool wire_manifest_file_ok(const struct wire_manifest_file *file);
void wire_manifest_file_write(struct base_writer *writer, const struct wire_manifest_file *file);
void wire_manifest_file_read(struct base_reader *reader, struct wire_manifest_file *file);

BASE_C_END

#endif
