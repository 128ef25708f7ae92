#include "written/english_rules.h"

namespace antiphon::written {

std::string_view EnglishRules() {
  return R"rules(
# Numbers below ten stay words where they stand alone; with a unit, in a time or in a row they are digits.
digit    = "one":"1" | "two":"2" | "three":"3" | "four":"4" | "five":"5" | "six":"6" | "seven":"7" | "eight":"8" |
           "nine":"9"
zero     = "zero":"0" | "oh":"0" | "o":"0"
teen     = "ten":"10" | "eleven":"11" | "twelve":"12" | "thirteen":"13" | "fourteen":"14" | "fifteen":"15" |
           "sixteen":"16" | "seventeen":"17" | "eighteen":"18" | "nineteen":"19"
ty       = "twenty":"2" | "thirty":"3" | "forty":"4" | "fifty":"5" | "sixty":"6" | "seventy":"7" | "eighty":"8" |
           "ninety":"9"
from_ten = teen | ty ("":"0" | " ":"" digit)
# Two, three places, filled up with zeros.
two_places      = from_ten | "":"0" digit
and      = " ":"" | " and ":""
hundreds = (digit | "a":"1") " hundred":"" ("":"00" | and two_places)
three_places = hundreds | "":"0" two_places
below_thousand = from_ten | hundreds
any_below_thousand = digit | below_thousand
# Thousands and millions, with commas.
below_thousands = "":"000" | and three_places
thousands = (any_below_thousand | "a":"1") " thousand":"," below_thousands
millions = (any_below_thousand | "a":"1") " million":"," (
             "":"000,000" <2> | and three_places " thousand":"," below_thousands | and "":"000," three_places)
number   = below_thousand | thousands | millions
any_number = digit | number

# "Eleven hundred", "twelve hundred and fifty", "three point five million".
teen_hundreds = teen " hundred":"" ("":"00" | and two_places) <0.5>
whole    = any_number | teen_hundreds
places   = " point ":"." (zero | digit) (" ":"" (zero | digit))*
decimal  = ("zero":"0" | any_number) places
large    = " million" | " billion" | " trillion"
of_large = (any_below_thousand | decimal) large <1>
quantity = whole | decimal | of_large

# A part of a large number is none: half a million, three quarters of a million. "A million" within it stays words.
part_of  = ("half" | ("half" | "third" | "thirds" | "quarter" | "quarters" | "fifth" | "fifths" | "tenth" | "tenths" |
             "fraction") " of") " a" (" hundred" | " thousand" | large)

# First, twenty first, hundredth.
ordinal_digit = "first":"1st" | "second":"2nd" | "third":"3rd" | "fourth":"4th" | "fifth":"5th" | "sixth":"6th" |
           "seventh":"7th" | "eighth":"8th" | "ninth":"9th"
ordinal_teen = "tenth":"10th" | "eleventh":"11th" | "twelfth":"12th" | "thirteenth":"13th" | "fourteenth":"14th" |
           "fifteenth":"15th" | "sixteenth":"16th" | "seventeenth":"17th" | "eighteenth":"18th" | "nineteenth":"19th"
ordinal_ty = "twentieth":"20th" | "thirtieth":"30th" | "fortieth":"40th" | "fiftieth":"50th" | "sixtieth":"60th" |
           "seventieth":"70th" | "eightieth":"80th" | "ninetieth":"90th"
ordinal_two = ordinal_teen | ordinal_ty | ty " ":"" ordinal_digit
ordinal  = ordinal_two | digit " hundred ":"" ("and ":"")? (ordinal_two | "":"0" ordinal_digit) |
           digit " hundredth":"00th"

# Second of May, twenty first of June.
month    = "january":"January" | "february":"February" | "march":"March" | "april":"April" | "may":"May" |
           "june":"June" | "july":"July" | "august":"August" | "september":"September" | "october":"October" |
           "november":"November" | "december":"December"
day      = "first" | "second" | "third" | "fourth" | "fifth" | "sixth" | "seventh" | "eighth" | "ninth" |
           ordinal_teen | "twentieth":"20th" | "twenty ":"2" ordinal_digit | "thirtieth":"30th" | "thirty first":"31st"
date     = day " of " month

# Nineteen eighty four, twenty twenty six, nineteen oh five, two thousand and eight.
century  = "sixteen":"16" | "seventeen":"17" | "eighteen":"18" | "nineteen":"19" | "twenty":"20"
year     = century " ":"" (from_ten | ("oh":"0" | "o":"0") " ":"" digit) |
           "two thousand":"20" (" and ":"" | " ":"") two_places

# Ten thirty p m, at ten thirty, half past three, twenty past three, quarter to five, five o'clock.
hour     = digit | "ten":"10" | "eleven":"11" | "twelve":"12"
minute_ty = "twenty":"2" | "thirty":"3" | "forty":"4" | "fifty":"5"
minute   = teen | minute_ty ("":"0" | " ":"" digit) | ("oh ":"0" | "o ":"0") digit
half     = " a m":" a.m." | " p m":" p.m." | " am":" a.m." | " pm":" p.m." | " a.m." | " p.m."
hour_before = "one":"12" | "two":"1" | "three":"2" | "four":"3" | "five":"4" | "six":"5" | "seven":"6" | "eight":"7" |
           "nine":"8" | "ten":"9" | "eleven":"10" | "twelve":"11"
past     = " past ":"" | " minutes past ":""
time     = hour " ":":" minute half | "at " hour " ":":" minute half? | hour half | hour " o'clock":":00" |
           ("five":"" past hour "":":05") | ("ten":"" past hour "":":10") | ("twenty":"" past hour "":":20") |
           ("twenty five":"" past hour "":":25") |
           ("half past ":"" hour "":":30") | ("quarter past ":"" hour "":":15") | ("a quarter past ":"" hour "":":15") |
           ("quarter to ":"" hour_before "":":45") | ("a quarter to ":"" hour_before "":":45")

# Twenty five dollars and fifty cents, three million pounds.
cents    = (" and ":"." | " ":".") two_places (" cents":"" | " cent":"" | " pence":"")
dollars  = " dollars":"" | " dollar":""
pounds   = " pounds":"" | " pound":""
euros    = " euros":"" | " euro":""
money    = "":"$" (quantity dollars | whole dollars cents) | "":"£" (quantity pounds | whole pounds cents) |
           "":"€" (quantity euros | whole euros cents)
# A hundred and two hundred, two thousand and three thousand dollars: two numbers, not 102 hundreds.
of_hundred = hundreds | thousands | millions | of_large | teen_hundreds
two_numbers = of_hundred (" and " | " ") (of_hundred | "":"$" of_hundred dollars | "":"£" of_hundred pounds |
             "":"€" of_hundred euros)
below_hundred = digit | from_ten
# One or two dollars, five to ten euros; one or two hundred dollars stay words.
or_to    = " or " | " to "
two_sums = "":"$" below_hundred or_to "":"$" below_hundred " dollars":"" |
           "":"£" below_hundred or_to "":"£" below_hundred " pounds":"" |
           "":"€" below_hundred or_to "":"€" below_hundred " euros":""
said_digit = "one" | "two" | "three" | "four" | "five" | "six" | "seven" | "eight" | "nine"
said_from_twenty = ("twenty" | "thirty" | "forty" | "fifty" | "sixty" | "seventy" | "eighty" | "ninety")
           (" " said_digit)?
said_from_ten = "ten" | "eleven" | "twelve" | "thirteen" | "fourteen" | "fifteen" | "sixteen" | "seventeen" |
           "eighteen" | "nineteen" | said_from_twenty
said_below_hundred = said_digit | said_from_ten
# Thirty second may be 32nd or 30 seconds long.
seconds  = ("twenty" | "thirty" | "forty" | "fifty" | "sixty" | "seventy" | "eighty" | "ninety") " second"
large_sums = said_below_hundred or_to said_below_hundred (" hundred" | " thousand" | large)
           (" dollars" | " pounds" | " euros")
# Two fifty may be 250, 2.50 or 2:50, and stays words; at two fifty is a time, unless what follows or goes before is
# that of a price or a measure: two fifty each, priced at two fifty, at two fifty degrees.
said_pair = said_digit " " said_from_ten | ("ten" | "eleven" | "twelve") " " said_from_twenty
each     = " each" | " apiece" | " per" | " cents" | " dollars" | " pounds" | " euros" |
           (" a " | " an ") ("barrel" | "bottle" | "box" | "day" | "dozen" | "gallon" | "head" | "hour" | "kilo" |
             "liter" | "litre" | "month" | "night" | "ounce" | "piece" | "pound" | "share" | "ticket" | "ton" |
             "unit" | "week" | "year")
priced   = ("priced" | "sell" | "selling" | "sells" | "sold" | "traded" | "trades" | "trading" | "valued") " at "
price    = said_pair each? | "at " said_pair each | priced said_pair each?
measure  = " degrees" | " feet" | " grams" | " kilograms" | " kilometers" | " kilometres" | " meters" | " metres" |
           " miles" | " milligrams" | " percent":"%"
pair     = digit " ":"" (from_ten | ("oh":"0" | "o":"0") " ":"" digit) |
           ("ten":"10" | "eleven":"11" | "twelve":"12") " ":"" (ty ("":"0" | " ":"" digit))
measured = ("at ")? pair measure

# Pounds of something are no money.
weight   = (quantity | below_hundred or_to below_hundred) (" pounds of" | " pound of")
small_money = any_number (" cents":"¢" | " cent":"¢")
percent  = quantity (" percent":"%" | " per cent":"%")

# One dollar fifty; but one dollar fifty times, two dollars fifty thousand, ten dollars twenty dollars.
counted  = " times" | " years" | " months" | " weeks" | " days" | " hours" | " minutes" | " seconds" | " people" | " of"
and_change = " ":"." from_ten | " " (from_ten counted | of_hundred | money | percent | ordinal | time)
short_sum = "":"$" below_hundred dollars and_change | "":"£" below_hundred pounds and_change |
           "":"€" below_hundred euros and_change

# Digits in a row, as of a telephone: at least three, and not "oh" alone.
oh       = "oh":"0" | "o":"0"
no_oh    = "zero":"0" | digit
any_oh   = (" ":"" (oh | no_oh))
row      = no_oh any_oh any_oh+ | oh " ":"" (no_oh any_oh+ | oh (" ":"" oh)* " ":"" no_oh any_oh*)

# Words that have a capital wherever they stand.
self     = "i":"I" | "i'm":"I'm" | "i'll":"I'll" | "i've":"I've" | "i'd":"I'd"

written  = number <0.1> | decimal | of_large | teen_hundreds | part_of | two_numbers <4> | ordinal <0.1> | seconds |
           date | year | time | money | short_sum | two_sums | large_sums | weight | price <0.5> | measured |
           small_money | percent | row <0.3> | self
)rules";
}

}  // namespace antiphon::written
