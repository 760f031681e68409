/* SPDX-License-Identifier: Apache-2.0 */
#include "utf8.h"

#include <string.h>

size_t utf8_read(const char *data, size_t bytes, uint32_t *code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const uint8_t *at = (const uint8_t *)data;
	size_t length;

	if (at[0] < 0x80) {
		*code = at[0];
		return 1;
	}
	if (at[0] >= 0xf0)
		length = 4;
	else if (at[0] >= 0xe0)
		length = 3;
	else
		length = 2;
	if (at[0] < 0xc2 || at[0] > 0xf4 || length > bytes)
		return 0;
	*code = at[0] & (0x7fu >> length);
	for (size_t i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (at[i] & 0x3f);
	}
	if (*code < least[length] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
		return 0;
	return length;
}

bool utf8_harmful(uint32_t code)
{
	if (code < 0x20 || (code >= 0x7f && code < 0xa0))
		return true;
	if (code == 0xad || code == 0x61c || code == 0x180e || code == 0xfeff)
		return true;
	/* zero-width and direction marks, separators, embeddings, invisible operators */
	if ((code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
	    (code >= 0x2060 && code <= 0x206f))
		return true;
	/* interlinear marks, tags, noncharacters */
	if ((code >= 0xfff9 && code <= 0xfffb) || (code >= 0xe0000 && code <= 0xe0fff))
		return true;
	return (code & 0xfffe) == 0xfffe || (code >= 0xfdd0 && code <= 0xfdef);
}

void utf8_clean(char *text)
{
	size_t bytes = strlen(text);

	while (bytes) {
		uint32_t code;
		size_t length = utf8_read(text, bytes, &code);

		if (!length || utf8_harmful(code)) {
			length = length ? length : 1;
			memset(text, '?', length);
		}
		text += length;
		bytes -= length;
	}
}
