/* SPDX-License-Identifier: Apache-2.0 */
#include "spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "utf8.h"

#define ATOM_CHARACTERS_MAX 255
#define ARITY_MAX	    255

struct parser {
	const char *text;
	const char *at;
	struct spec_error *error;
};

static int fail(struct parser *parser, const char *at, const char *message)
{
	parser->error->at = (size_t)(at - parser->text);
	parser->error->message = message;
	return -EINVAL;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '@' || (unsigned char)c >= 0x80;
}

static size_t characters(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += ((unsigned char)*text & 0xc0) != 0x80;
	return count;
}

static int atom_append(struct parser *parser, char *atom, const char *from, size_t bytes)
{
	size_t used = strlen(atom);

	if (used + bytes >= ATOM_BYTES)
		return fail(parser, from, "an atom has at most 255 characters");
	memcpy(atom + used, from, bytes);
	atom[used + bytes] = 0;
	if (characters(atom) > ATOM_CHARACTERS_MAX)
		return fail(parser, from, "an atom has at most 255 characters");
	return 0;
}

/* A quoted atom; `quote` stands at the parser. */
static int quoted(struct parser *parser, char *atom)
{
	const char *start = parser->at;
	char quote = *parser->at++;
	int error;

	while (*parser->at && *parser->at != quote) {
		if (*parser->at == '\\' && parser->at[1])
			parser->at++;
		error = atom_append(parser, atom, parser->at, 1);
		if (error)
			return error;
		parser->at++;
	}
	if (!*parser->at)
		return fail(parser, start, "this quote is not closed");
	parser->at++;
	if (!*atom)
		return fail(parser, start, "a name is expected here");
	return 0;
}

/* Letters, digits, _ and @; `more` characters are allowed at the end (Elixir's ? and !). */
static int word(struct parser *parser, char *atom, const char *more)
{
	const char *start = parser->at;

	while (is_word(*parser->at))
		parser->at++;
	if (parser->at != start && *parser->at && strchr(more, *parser->at))
		parser->at++;
	if (parser->at == start)
		return fail(parser, start, "a name is expected here");
	return atom_append(parser, atom, start, (size_t)(parser->at - start));
}

/* Elixir: Alias.Alias... Stops before ".function". */
static int alias(struct parser *parser, char *module)
{
	int error = 0;

	if (strncmp(parser->at, "Elixir.", 7))
		error = atom_append(parser, module, "Elixir.", 7);
	while (!error) {
		error = word(parser, module, "");
		if (error || *parser->at != '.' || !isupper((unsigned char)parser->at[1]))
			break;
		parser->at++;
		error = atom_append(parser, module, ".", 1);
	}
	return error;
}

static int function(struct parser *parser, struct call_spec *spec)
{
	if ((*parser->at == '_' || *parser->at == '*') && !is_word(parser->at[1])) {
		parser->at++;
		return 0;
	}
	if (*parser->at == '\'' || *parser->at == '"')
		return quoted(parser, spec->function);
	if (isdigit((unsigned char)*parser->at))
		return fail(parser, parser->at, "a function's name does not begin with a digit");
	return word(parser, spec->function, "?!");
}

static int arity(struct parser *parser, struct call_spec *spec)
{
	const char *start = parser->at;

	if ((*start == '_' || *start == '*') && !start[1]) {
		parser->at++;
		return 0;
	}
	spec->arity = 0;
	while (isdigit((unsigned char)*parser->at)) {
		spec->arity = spec->arity * 10 + (*parser->at++ - '0');
		if (spec->arity > ARITY_MAX)
			return fail(parser, start, "an arity is a number from 0 to 255");
	}
	if (parser->at == start)
		return fail(parser, start, "an arity is a number from 0 to 255");
	return 0;
}

static int module(struct parser *parser, struct call_spec *spec)
{
	if (*parser->at == '*' || (*parser->at == '_' && !is_word(parser->at[1])))
		return fail(parser, parser->at,
			    "a module has to be named: all of them are too many");
	if (isupper((unsigned char)*parser->at))
		return alias(parser, spec->module);
	/* Elixir's way to write an Erlang module: ":lists" */
	if (*parser->at == ':')
		parser->at++;
	if (*parser->at == '\'' || *parser->at == '"')
		return quoted(parser, spec->module);
	if (isdigit((unsigned char)*parser->at))
		return fail(parser, parser->at, "a module's name does not begin with a digit");
	return word(parser, spec->module, "");
}

int spec_parse(const char *text, struct call_spec *spec, struct spec_error *error)
{
	struct parser parser = {.text = text, .at = text, .error = error};
	int result;

	memset(spec, 0, sizeof(*spec));
	memset(error, 0, sizeof(*error));
	spec->arity = -1;
	if (!*text)
		return fail(&parser, text, "a module is expected here");
	result = module(&parser, spec);
	if (result)
		return result;
	/* Both languages' signs are understood behind any module. */
	if (*parser.at == ':' || *parser.at == '.') {
		parser.at++;
		result = function(&parser, spec);
		if (!result && *parser.at == '/') {
			parser.at++;
			result = arity(&parser, spec);
		}
		if (result)
			return result;
	} else if (*parser.at == '/') {
		return fail(&parser, parser.at, "a function is expected before an arity");
	}
	if (*parser.at)
		return fail(&parser, parser.at, "this character does not belong here");
	return 0;
}

void spec_error_lines(const char *text, const struct spec_error *error, char *lines, size_t bytes)
{
	char shown[256];
	size_t at = error->at, column = 0, used = 0;

	/* A long text is shown from shortly before the place. */
	if (at > 100) {
		text += at - 100;
		at = 100;
	}
	for (size_t i = 0; text[i] && used + 1 < sizeof(shown); i++) {
		unsigned char c = (unsigned char)text[i];

		if (i < at && (c & 0xc0) != 0x80)
			column++;
		shown[used++] = (char)c;
	}
	shown[used] = 0;
	utf8_clean(shown);
	snprintf(lines, bytes, "  %s\n  %*s^", shown, (int)column, "");
}
