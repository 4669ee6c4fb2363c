// A block of device records: what lies under one key of the table `devices`. LMDB takes ten
// bytes and those of the key for each value, so records share one, as many as fit half a page.
//
//   block  := u64 lane[2], u8 count, count x u16 end, count x record     under u8 2, u48 number
//   record := bytes, u64 id, u32 seal
//
// An end is where a record ends, counted from the first one's begin; the last one says it once
// more, for the value's size does. With 0x8000 added the bytes are shortened, for records of one
// size are much alike: u8 index of an earlier one of that size, a bit for each byte that is
// another, these bytes. A lane is the exclusive or of the ids of every second record: where an id
// is damaged the others tell it. A seal is four bytes of a base_record_seal over block number,
// index, id and the whole bytes. Numbers of a key have their most significant byte first, those of
// a value their least. A record without bytes ends its device's record. A record that does not fit
// lies in a block of its own, however long.
//
// One bit of a record damages that record and those that were shortened by it, one of an end two of
// them, one of a key all of them; of a count or a lane none. Whose they are is told all the same.
//
// Pure but for gw_block_write; private to the store.
#ifndef GW_STORE_BLOCK_H
#define GW_STORE_BLOCK_H

#include "store/store.h"

#include <lmdb.h>

#define GW_BLOCK_RECORDS    80u   // of a block, at most
#define GW_BLOCK_BYTES      2022u // of a value: two to a page of LMDB with their keys
#define GW_BLOCK_NUMBER_MAX ((UINT64_C(1) << 48) - 2) // of a block of device records
#define GW_BLOCK_LANES      2u
#define GW_BLOCK_MODELS     8u // sizes of which one is the model of others

// A record that others of its size are shortened by.
struct gw_block_model {
    uint16_t at; // of its bytes
    uint16_t size;
    uint8_t index;
};

// One that is being made: zero has number 0, which is none.
struct gw_block {
    uint64_t number;
    uint64_t lanes[GW_BLOCK_LANES];
    uint32_t count;
    uint16_t ends[GW_BLOCK_RECORDS];
    struct gw_block_model models[GW_BLOCK_MODELS];
    uint32_t model_count;
    uint8_t *body; // the records
    size_t body_bytes;
    size_t body_room;
};

// One that is read: borrows the value.
struct gw_block_view {
    uint64_t number;
    uint8_t version; // of the key, damaged perhaps
    bool whole;      // count and size say the same
    uint32_t count;
    const uint8_t *value;
    size_t size;
    uint32_t mended; // index of a record, 1 added, whose end was found to be another; 0: none
    uint16_t mended_end;
};

struct gw_block_record {
    uint64_t id;            // as it stands there
    struct base_span bytes; // of the value, or of the room it was given
    bool is_there;          // its ends are within the block
    bool sound;
};

// For the bytes of a record that was shortened.
struct gw_block_room {
    uint8_t bytes[GW_BLOCK_BYTES];
};

// Of whom a record may be: one id, or two where neither is sure.
struct gw_block_owner {
    uint64_t ids[2];
    uint32_t count;
};

// ---- Where records lie: a number for each place, 0 is none

static inline uint64_t gw_block_place(uint64_t number, uint32_t index)
{
    return number * GW_BLOCK_RECORDS + index;
}

static inline uint64_t gw_block_of(uint64_t place)
{
    return place / GW_BLOCK_RECORDS;
}

static inline uint32_t gw_block_index(uint64_t place)
{
    return (uint32_t)(place % GW_BLOCK_RECORDS);
}

struct gw_key gw_block_key(uint64_t number);
// False: it is no key of a block. Of a damaged version it is.
bool gw_block_key_read(MDB_val key, uint64_t *out_number);

// ---- Making one

// Empty, with this number; keeps its memory.
void gw_block_begin(struct gw_block *block, uint64_t number);
void gw_block_done(struct gw_block *block);
bool gw_block_has_room(const struct gw_block *block, size_t bytes);
// There is room, or it is empty. A damaged one keeps no bytes, only whose it was. *out_place is
// its. 0 or ENOMEM.
int gw_block_add(struct gw_block *block, uint64_t id, struct base_span bytes, bool damaged,
                 uint64_t *out_place);
// Puts it, if it has records, and begins the one with the next number. Flags and code are LMDB's.
int gw_block_write(struct gw_block *block, MDB_txn *txn, MDB_dbi table, unsigned flags);

// ---- Reading one

// Has the value room for a record at all?
bool gw_block_may_hold(MDB_val value);
// The key was read. False: how many records there are cannot be told.
bool gw_block_open(MDB_val key, MDB_val value, struct gw_block_view *out);
// The record at an index below the count, its seal looked at.
struct gw_block_record gw_block_get(const struct gw_block_view *view, uint32_t index,
                                    struct gw_block_room *room);
// Do all ids stand there as they were put?
bool gw_block_ids_right(const struct gw_block_view *view);
// Of whom each record is. False: it cannot be told. An end that is damaged is put right in the view
// where others hang on it.
bool gw_block_owners(struct gw_block_view *view, struct gw_block_owner out[GW_BLOCK_RECORDS]);

// No record of it is sound: with one bit of its key put right, they may be. True: `view` has the
// number and version that they are sealed with.
bool gw_block_mend_key(struct gw_block_view *view);

#endif
