#!/usr/bin/env python3
"""Sentences for the demo's synthetic speech and language model.

Writes OUT/lm.txt (text for the n-grams) and OUT/spoken.txt (what is synthesised). Sources: the grammar below, written for
telephone menus; the transcripts of the adaptation part; sequences of words drawn from the vocabulary. Sentences of four
or more words that equal a transcript of the dev or test part are dropped.
"""
import argparse
import os
import random
import re

import corpus

# CATEGORY: alternatives; <x> stands for one of category x.
GRAMMAR = {
    "sentence": [
        "<please> <verb> <object> <followed>", "<please> <verb> <object>", "press <key> to <action>",
        "press <key> to <action> or <key> to <action>", "press <key> to <action> press <key> to <action>",
        "<please> press <key> to <action> <key> to <action> or <key> to <action>", "press <key> for <topic>",
        "for <topic> press <key>", "to <action> press <key>", "<key> to <action>", "dial <key> to <action>",
        "<subject> <state>", "<subject> <state>", "<subject> <state> <retry>", "<sorry> <subject> <state>",
        "<sorry> <problem> <retry>", "<sorry> <problem>", "<retry>", "<count> <things>", "you have <count> <things>",
        "there are <count> <things>", "there are currently <count> participants in the conference", "<greeting>",
        "<greeting> <please> <verb> <object>", "after the tone <please> <verb> <object>",
        "at the tone <please> <verb> <object> <followed>", "<time>", "<date>", "<date> at <time>", "<number>",
        "<digits>", "<spelling>", "extension <digits>", "<subject> <state> and <state>", "you may <action> at any time",
        "the <time_word> is <number> <unit>", "your call will be <done> by the next available <person>",
        "if <subject> <state> press <key>", "if you wish to <action> press <key>", "<topic>", "<object>", "<action>",
        "<state>", "<sign>", "<name>", "<ordinal>", "to <action> from other <things>", "call from <object>",
        "message <key>", "<wait>", "<wait> while i <try_to> <action>", "use the <key> key for <letter>",
    ],
    "please": ["please", "please", "please now", "you must", ""],
    "followed": ["followed by the pound key", "followed by pound", "then press the pound key", "when done press pound",
                 "and then press star"],
    "verb": ["enter", "enter", "dial", "say", "record", "leave", "re enter", "check", "repeat", "type in", "change",
             "forward", "choose"],
    "object": [
        "your <kind> number", "your password", "your new password", "the <kind> number", "your name", "your message",
        "a message", "your <adjective> message", "your <adjective> greeting", "the extension", "a new extension",
        "the number you wish to call", "an introduction", "the person's name", "your area code", "another number",
        "the conference", "the <ordinal> <count> letters of your party's <ordinal> name", "a different number",
        "the directory", "the phone number", "your personal identification number", "the pin number",
    ],
    "kind": ["extension", "agent", "mailbox", "conference", "telephone", "phone", "channel", "account", "pin", "access"],
    "adjective": ["temporary", "busy", "unavailable", "new", "last", "previous", "next", "urgent", "saved", "old"],
    "action": [
        "listen to <object>", "hear <object>", "change <object>", "record <object>", "delete this message",
        "undelete this message", "save this message", "forward this message to <object>", "send a reply", "cancel",
        "repeat this message", "play the <adjective> message", "return to the main menu", "exit", "exit this menu",
        "mute or unmute yourself", "lock or unlock the conference", "increase your volume", "decrease your volume",
        "increase the conference volume", "decrease the conference volume", "reset the volume", "extend the conference",
        "list users", "eject the last user", "call the person who sent this message", "reach an operator",
        "enter <object>", "use the directory", "try again", "accept this <thing>", "reject it", "review this <thing>",
        "mark this message as urgent", "leave a message", "leave the conference", "hang up", "hear the message envelope",
        "place a call", "speak with a representative", "connect you", "toggle playback", "jump forwards",
        "jump backwards", "start over", "begin recording", "pause", "continue", "add another recipient",
        "dial the number", "make a selection", "return to the conference", "kick all users", "record this conference",
        "get help", "hear more entries", "hear the options again", "speak to customer service", "transfer this call",
    ],
    "try_to": ["try to", "attempt to", "", "try"],
    "topic": [
        "more options", "advanced options", "mailbox options", "password management", "the company directory", "sales",
        "accounting", "an operator", "help", "voicemail", "new messages", "old messages", "other folders",
        "work messages", "family messages", "friends", "greetings", "customer service", "<key>", "call waiting",
        "call forwarding", "speed dial", "folder <digit>", "conference number <digits>", "the phone system",
    ],
    "subject": [
        "the <kind> number", "your call", "the conference", "this conference", "your message", "that number",
        "that extension", "the party you are trying to reach", "the person at extension <digits>", "the caller", "the user",
        "the leader", "your password", "this feature", "all circuits", "the number you have dialed", "the line",
        "you", "the recording", "the audio volume", "the service", "the last caller", "that option", "this call",
        "the telephone number", "no one", "the system", "another user", "your phone", "the entry you have entered",
    ],
    "state": [
        "is not valid", "is not available", "is now locked", "is now unlocked", "is now muted", "is unmuted", "is busy",
        "are now muted", "are busy now", "has been saved", "has been deleted", "has been changed", "has been removed",
        "has been forwarded", "is on the phone", "is unavailable", "is in use", "is full", "is empty", "is locked",
        "cannot be completed", "will begin when the <person> arrives", "is not answering", "is not in service",
        "has joined the conference", "has left the conference", "has been extended", "has been completed",
        "have entered an invalid option", "did not match", "is too short", "is invalid", "is currently active",
        "is being recorded", "has been disabled", "has been enabled", "was successfully added", "is set to <number>",
        "is activated", "is deactivated", "are currently the only person in this conference", "is unknown",
        "does not exist", "cannot be called back", "is now <done>", "has <count> <things>", "are not logged on",
        "is already logged on", "have been placed on hold", "has ended", "is correct", "is incorrect",
    ],
    "done": ["answered", "recorded", "connected", "saved", "deleted", "locked", "cancelled", "accepted", "placed",
             "transferred", "parked", "disabled", "enabled", "received", "removed", "paused"],
    "person": ["representative", "agent", "operator", "leader", "administrator", "caller", "user", "participant"],
    "problem": [
        "i did not understand your response", "that is not a valid <kind> number", "that is not a valid choice",
        "nobody is available to take your call", "there are no more messages", "no one is available", "there is no such entry",
        "i was unable to connect your call", "i was unable to find the number", "the mailbox is full",
        "login incorrect", "password incorrect", "there is no call on that extension", "that conference is locked",
    ],
    "sorry": ["i'm sorry", "i am sorry", "sorry", "we're sorry", "i'm afraid"],
    "retry": ["please try again", "please try again later", "please try your call again", "goodbye",
              "please check the number and try again", "please hang up", "thank you"],
    "wait": ["please hold", "please wait", "one moment please", "please stay on the line", "please be patient"],
    "greeting": ["thank you", "thank you for calling", "welcome", "welcome to the directory", "hello", "goodbye",
                 "welcome to voicemail", "thank you for your patience", "thank you for waiting", "congratulations"],
    "thing": ["message", "call", "recording", "greeting", "number"],
    "things": ["messages", "new messages", "old messages", "callers", "users", "participants", "minutes", "seconds",
               "hours", "dollars", "entries", "letters", "calls", "saved messages", "options"],
    "time_word": ["time", "hold time", "estimated hold time", "duration"],
    "count": ["<digit>", "<number>", "no", "no more", "more than <number>", "less than <number>"],
    "unit": ["minutes", "seconds", "hours", "minute", "second", "dollars"],
    "key": ["<digit>", "<digit>", "<digit>", "<digit>", "star", "pound", "the pound key", "the star key"],
    "digit": corpus.DIGITS,
    "digits": ["<digit> <digit>", "<digit> <digit> <digit>", "<digit> <digit> <digit> <digit>",
               "<digit> oh <digit> <digit>", "<digit> hundred"],
    "teen": "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split(),
    "ten": "twenty thirty forty fifty sixty seventy eighty ninety".split(),
    "number": ["<digit>", "<teen>", "<ten>", "<ten> <digit>", "<digit> hundred", "<digit> hundred and <ten> <digit>",
               "<digit> thousand", "<digit> million", "<ten> thousand", "minus <digit>", "<digit> point <digit>"],
    "ordinal": "first second third fourth fifth sixth seventh eighth ninth tenth last twelfth twentieth thirtieth".split(),
    "time": ["<digit> <ten>", "<teen> o'clock", "<digit> <ten> a m", "<digit> <ten> p m", "<digit> oh <digit>"],
    "day": "sunday monday tuesday wednesday thursday friday saturday today tomorrow yesterday".split(),
    "month": "january february march april may june july august september october november december".split(),
    "date": ["<day>", "<month> <ordinal>", "<day> <month> <ordinal>", "<day> the <ordinal>", "<month>"],
    "letter": list("abcdefghijklmnopqrstuvwxyz") + ["zed"],
    "spelling": ["<letter> <letter>", "<letter> <letter> <letter>", "<letter>", "<name> <name>"],
    "name": ("alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa quebec "
             "romeo sierra tango uniform victor whiskey xray yankee zulu niner").split(),
    "sign": ["dash", "dot", "at", "slash", "comma", "colon", "equals", "plus", "question mark", "percent", "tilde",
             "left bracket", "right brace", "less than", "space", "quote", "underscore", "dollar sign", "asterisk"],
}


def expand(random_, text):
    while (match := re.search(r"<(\w+)>", text)) is not None:
        text = text[: match.start()] + random_.choice(GRAMMAR[match.group(1)]) + text[match.end():]
    return text.split()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--human", required=True, help="folder of demo_human_speech.py")
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--spoken", type=int, default=5000, help="sentences to be synthesised")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-adapt", action="store_true", help="the adaptation part's transcripts are unknown too")
    options = parser.parse_args()
    random_ = random.Random(options.seed)

    vocabulary = corpus.read_lines(os.path.join(options.human, "vocabulary"))
    known = set(vocabulary)
    def texts(part):
        return [line.split()[1:] for line in corpus.read_lines(os.path.join(options.human, part, "text"))]
    secret = ("dev", "test", "adapt") if options.without_adapt else ("dev", "test")
    held_out = {tuple(words) for part in secret for words in texts(part) if len(words) >= 4}

    def sentence():
        while True:
            words = expand(random_, "<sentence>")
            if words and tuple(words) not in held_out and known.issuperset(words):
                return words

    adapt = [words for words in texts("adapt") if not options.without_adapt and tuple(words) not in held_out]
    text = [sentence() for _ in range(20000)] + adapt * 20 + [[word] for word in vocabulary]
    corpus.write_lines(os.path.join(options.out, "lm.txt"), [" ".join(words) for words in text])

    # Half of what is spoken covers the vocabulary evenly, whatever the grammar prefers.
    spoken = [sentence() for _ in range(options.spoken // 2)]
    queue = []
    while len(spoken) < options.spoken:
        if len(queue) < 8:
            queue += random_.sample(vocabulary, len(vocabulary))
        length = random_.randint(1, 8)
        spoken.append(queue[:length])
        queue = queue[length:]
    random_.shuffle(spoken)
    corpus.write_lines(os.path.join(options.out, "spoken.txt"), [" ".join(words) for words in spoken])
    print(f"demo_sentences: {len(text)} for the language model, {len(spoken)} to be spoken")


if __name__ == "__main__":
    main()
