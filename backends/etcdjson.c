/*
 * What etcd's JSON gateway says and wants to hear.  Must never put a number
 * through a double, nor take nonsense for zero.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdjson.h"

#define DEPTH_MAX	32

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* jansson's allocator is one of the whole process, and so is this. */
static bool has_failed;

static void *
allocate(size_t size)
{
	void *p = malloc(size);

	if (p == NULL)
		has_failed = true;
	return p;
}

void
etcdjson_init(void)
{
	json_set_alloc_funcs(allocate, free);
}

bool
etcdjson_failed(void)
{
	bool failed = has_failed;

	has_failed = false;
	return failed;
}

static bool
is_deep(const char *text, size_t len)
{
	bool in_string = false;
	int depth = 0;
	size_t i;

	for (i = 0; i < len; i++) {
		if (in_string) {
			if (text[i] == '\\')
				i++;
			else if (text[i] == '"')
				in_string = false;
		} else if (text[i] == '"')
			in_string = true;
		else if (text[i] == '{' || text[i] == '[')
			depth++;
		else if (text[i] == '}' || text[i] == ']')
			depth--;
		if (depth > DEPTH_MAX)
			return true;
	}
	return false;
}

json_t *
etcdjson_parse(const char *text, size_t len)
{
	json_error_t error;
	json_t *json;

	if (is_deep(text, len))
		return NULL;
	json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	if (json_is_object(json))
		return json;
	json_decref(json);
	return NULL;
}

bool
etcdjson_int(const json_t *object, const char *key, int64_t *value)
{
	const json_t *json = json_object_get(object, key);
	const char *text;
	char *end;

	if (!json_is_object(object))
		return false;
	if (json == NULL) {
		*value = 0;
		return true;
	}
	if (json_is_integer(json)) {
		*value = json_integer_value(json);
		return true;
	}
	text = json_string_value(json);
	if (text == NULL || text[0] == '\0' ||
	    strspn(text, "-0123456789") != strlen(text))
		return false;
	errno = 0;
	*value = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0';
}

json_t *
etcdjson_bytes(const char *text)
{
	const unsigned char *in = (const unsigned char *)text;
	size_t i, len = strlen(text), n = 0;
	uint32_t bits;
	json_t *json;
	char *out;

	if ((out = allocate((len + 2) / 3 * 4 + 1)) == NULL)
		return NULL;
	for (i = 0; i < len; i += 3) {
		bits = (uint32_t)in[i] << 16;
		bits |= i + 1 < len ? (uint32_t)in[i + 1] << 8 : 0;
		bits |= i + 2 < len ? in[i + 2] : 0;
		out[n++] = alphabet[bits >> 18];
		out[n++] = alphabet[bits >> 12 & 63];
		out[n++] = i + 1 < len ? alphabet[bits >> 6 & 63] : '=';
		out[n++] = i + 2 < len ? alphabet[bits & 63] : '=';
	}
	out[n] = '\0';
	json = json_string(out);
	free(out);
	return json;
}

/* True: so many of the four characters are padding. */
static bool
get_padding(const char *in, bool is_last, int *padding)
{
	*padding = in[3] != '=' ? 0 : in[2] != '=' ? 1 : 2;
	return *padding == 0 || is_last;
}

char *
etcdjson_text(const json_t *object, const char *key)
{
	const json_t *json = json_object_get(object, key);
	const char *in = json == NULL ? "" : json_string_value(json), *found;
	size_t i, len, n = 0;
	int j, padding;
	uint32_t bits;
	char *out;

	if (in == NULL || (len = strlen(in)) % 4 != 0 ||
	    (out = allocate(len / 4 * 3 + 1)) == NULL)
		return NULL;
	for (i = 0; i < len; i += 4) {
		if (!get_padding(in + i, i + 4 == len, &padding))
			goto bad;
		for (j = 0, bits = 0; j < 4; j++) {
			found = j >= 4 - padding ? alphabet :
			    strchr(alphabet, in[i + j]);
			if (found == NULL)
				goto bad;
			bits = bits << 6 | (uint32_t)(found - alphabet);
		}
		for (j = 0; j < 3 - padding; j++)
			out[n++] = (char)(bits >> (16 - 8 * j));
	}
	out[n] = '\0';
	/* No text of ours has a NUL inside. */
	if (strlen(out) == n)
		return out;
bad:
	free(out);
	return NULL;
}

json_t *
etcdjson_outside(const char *text)
{
	json_t *json = json_string(text);

	return json != NULL ? json : json_string("?");
}

json_t *
etcdjson_number(int64_t value)
{
	return json_sprintf("%" PRId64, value);
}

json_t *
etcdjson_op(const char *name, json_t *op)
{
	return json_pack("{s:o}", name, op);
}

json_t *
etcdjson_range(const char *key, const char *end)
{
	json_t *op = json_pack("{s:o}", "key", etcdjson_bytes(key));

	if (end != NULL)
		json_object_set_new(op, "range_end", etcdjson_bytes(end));
	return etcdjson_op("request_range", op);
}

json_t *
etcdjson_put(const char *key, const json_t *value, int64_t lease)
{
	char *text = json_dumps(value, JSON_COMPACT);
	json_t *op;

	if (text == NULL) {
		has_failed = true;
		return NULL;
	}
	op = json_pack("{s:o, s:o}", "key", etcdjson_bytes(key), "value",
	    etcdjson_bytes(text));
	free(text);
	if (lease != 0)
		json_object_set_new(op, "lease", etcdjson_number(lease));
	return etcdjson_op("request_put", op);
}

json_t *
etcdjson_delete(const char *key)
{
	return etcdjson_op("request_delete_range",
	    json_pack("{s:o}", "key", etcdjson_bytes(key)));
}

/* A misspelt field is ignored by etcd, which would then compare with 0. */
static json_t *
compare(const char *key, const char *target, const char *result,
    const char *field, int64_t value)
{
	return json_pack("{s:o, s:s, s:s, s:o}", "key", etcdjson_bytes(key),
	    "target", target, "result", result, field,
	    etcdjson_number(value));
}

json_t *
etcdjson_created(const char *key, int64_t revision)
{
	return compare(key, "CREATE", "EQUAL", "create_revision", revision);
}

json_t *
etcdjson_modified(const char *key, int64_t revision)
{
	return compare(key, "MOD", "EQUAL", "mod_revision", revision);
}

json_t *
etcdjson_lease_is(const char *key, bool equal, int64_t lease)
{
	return compare(key, "LEASE", equal ? "EQUAL" : "NOT_EQUAL", "lease",
	    lease);
}

json_t *
etcdjson_txn(json_t *compare_all, json_t *success, json_t *failure)
{
	return json_pack("{s:o, s:o, s:o}", "compare", compare_all, "success",
	    success, "failure", failure == NULL ? json_array() : failure);
}

const json_t *
etcdjson_response(const json_t *txn, size_t i, const char *kind)
{
	return json_object_get(json_array_get(json_object_get(txn,
	    "responses"), i), kind);
}
