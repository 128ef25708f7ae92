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
thousands = (any_below_thousand | "a":"1") " thousand":"," ("":"000" | " ":"" hundreds | and "":"0" two_places)
number   = below_thousand | thousands |
           (any_below_thousand | "a":"1") " million":"," (
             "":"000,000" <2> |
             " ":"" three_places " thousand":"," ("":"000" | " ":"" hundreds | and "":"0" two_places) |
             " ":"000," hundreds | and "":"000,0" two_places)
any_number = digit | number

# "Eleven hundred", "three point five million".
teen_hundreds = teen " hundred":"00" <0.5>
places   = " point ":"." (zero | digit) (" ":"" (zero | digit))*
decimal  = ("zero":"0" | any_number) places
large    = " million" | " billion" | " trillion"
quantity = any_number | decimal | (any_number | decimal) large <1> | teen_hundreds

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
day      = "first" | "second" | "third" | "fourth" | "fifth" | "sixth" | "seventh" | "eighth" | "ninth" | ordinal_two
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
money    = "":"$" quantity (" dollars":"" | " dollar":"") cents? | "":"£" quantity (" pounds":"" | " pound":"") cents? |
           "":"€" quantity (" euros":"" | " euro":"") cents?
# One or two dollars, five to ten euros; one or two hundred dollars stay words.
below_hundred = digit | from_ten
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

# Digits in a row, as of a telephone: at least three.
row      = (zero | digit) " ":"" (zero | digit) (" ":"" (zero | digit))+

# Words that have a capital wherever they stand.
self     = "i":"I" | "i'm":"I'm" | "i'll":"I'll" | "i've":"I've" | "i'd":"I'd"

written  = number <0.1> | decimal | any_number large <1> | decimal large <1> | teen_hundreds | ordinal | date | year |
           time | money | two_sums | large_sums | weight | price <0.5> | measured | small_money | percent | row <0.3> |
           self
)rules";
}

}  // namespace antiphon::written
