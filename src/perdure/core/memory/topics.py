"""What words are about, so that statements that share none of their words can be about the same thing.

A topic is a set of words; a word may belong to several. Topics marked with `!` are about something of which there is
one at a time: where somebody lives, when something is due. All of it is English and general.
"""

from typing import Final

from perdure.core.memory.lexicon import EXACT, SAME
from perdure.core.memory.words import stem

_TOPICS: Final = """
residence!: live home reside base move relocate settle house flat apartment address locate hometown city residence
    stay dwell neighbourhood place country
job!: work employ job position role occupation profession career title serve promote post function
employer!: work employ employer company firm join hire employee staff
school!: study graduate degree university college school attend major enrol enroll alumnus alumna student alma mater
    educate education course
allergy: allergic allergy reaction intolerant intolerance react sensitive sensitivity cannot avoid
liking: like love enjoy adore fond fan favour keen appreciate dig passionate into hobby pastime interest delight
    devote addict crazy
favourite!: favourite best top choice preferred prefer go-to number-one like love pick choose most
preference!: prefer choice favour want wish opt choose like rather pick ask request insist expect should default
naming!: name call nickname know title dub rename
birth!: birthday birth born birthdate turn celebrate
age!: age old year turn
marriage!: marry married single engage divorce wed wedding spouse wife husband separate widow fiance fiancee partner
    relationship date marriage
spouse!: wife husband spouse partner marry married
family: sister brother sibling mother father parent son daughter child kid aunt uncle cousin niece nephew grandmother
    grandfather family relative expect
children!: child kid son daughter have baby parent
pet: dog cat pet puppy kitten animal parrot rabbit own
diet!: diet eat vegetarian vegan pescatarian gluten-free food meat keto meal dairy-free halal kosher omnivore
    plant-based consume dairy eater restriction low-carb paleo
drinking: drink coffee tea beverage cup sip alcohol beer wine sober caffeine decaf espresso latte order
smoking!: smoke cigarette smoker tobacco vape
health: condition diagnose suffer illness disease asthma diabetes diabetic asthmatic migraine health medical chronic
    have
medication!: medication take pill medicine prescribe prescription dose drug tablet dosage
doctor!: doctor physician dentist therapist gp see patient appointment
fear: afraid fear scare phobia terrify anxious frighten uneasy
language: speak fluent language speaker native tongue bilingual fluency converse
learning: learn study practise practice lesson course class train teach
coding!: code program write language develop programming software codebase implement build
editor!: editor ide edit code use
instrument: play instrument musician player
sport: play sport team club athlete train coach run race
exercise: run jog gym workout exercise train yoga swim cycle fitness walk
training: train marathon race prepare practise run
car!: car drive vehicle own automobile truck suv commute
owning: own have possess belong get buy owner
buying: buy purchase acquire get pick order invest bought
selling: sell sold dispose
contact!: contact reach call email phone message write text communicate communication channel address get touch ping
    slack
notice!: notify notification alert remind reminder ping notice
phone!: phone telephone number extension mobile call cell dial
email!: email address mail inbox
hours!: hour work start begin open close day until from shift available morning
dayoff!: off free day work holiday weekend leave
calling: call phone ring disturb contact bother
meeting!: meeting meet call sync standup one-on-one hold session review schedule take-place catch-up check-in stand-up
    weekly daily recur appointment happen calendar invite set
appointment!: appointment dentist doctor visit checkup schedule book slot reservation
deadline!: deadline due finish deliver complete date by submit ship target deliverable launch delivery end done
launch!: launch release ship go-live live rollout debut roll publish date start
expiry!: expire expiry renew renewal valid end lapse until run
starting!: start begin kick commence launch since open first
finishing!: finish end complete close done conclude wrap
travel: travel trip visit fly flight go journey vacation holiday tour plan head
trip!: trip travel visit go plan fly vacation holiday head book destination journey itinerary
commute!: commute travel get bike bus train drive walk ride way work office
transport: train rail bus plane fly drive ride transport railway metro subway car
seat!: seat aisle window sit flight prefer fly
hotel!: hotel stay room accommodation lodging book
timezone!: timezone time zone schedule local clock
desk!: desk sit find seat room floor office work place workstation located building
office!: office work remote home remotely wfh onsite hybrid site
manager!: manager report boss supervisor manage lead head direct line oversee superior supervise
reports!: report manage direct team people member size head lead supervise
team!: team group squad department belong member join part division transfer unit
membership: member belong join part membership club society
owner!: owner own responsible charge maintain look run manage lead handle belong accountable ownership responsibility
    oversee care maintenance owned steward keep
leader!: lead leader head chair captain run manage ceo director chief president oversee
founder: found founder start create establish
budget!: budget allocate set-aside fund funding money earmark allot cost spend approve assign
approval: approve sign-off authorise authorize accept agree clear green-light greenlight ok consent approval
price!: price cost charge pay fee rate bill priced run worth expensive
salary!: salary earn pay make income wage compensation paid gross paycheck
rent!: rent pay lease cost flat apartment landlord monthly
spending!: spend limit budget cap pay allowance cost
balance!: balance hold account have contain remain left
saving!: save saving goal aside put target
investing!: invest portfolio allocate hold stock position allocation share exposure fund
risk!: risk tolerance appetite conservative aggressive moderate profile averse cautious leverage
limit!: limit maximum cap threshold most exceed allow quota up restrict bound ceiling
minimum!: minimum least need require floor
fee!: fee charge commission take cost cut
yield!: yield apy apr return earn pay rate interest
plan!: plan tier subscription subscribe level package pay membership subscriber licence license pricing
account!: account number id belong
status!: status state production live active hold pause run shut-down decommission retire archive deprecate resume
    operational running maintenance progress development complete down up inactive suspend freeze cancel launch park
    ongoing restart underway close open
build!: build fail green pass broken red fix ci pipeline break failing test
flag!: flag toggle feature enable disable on off switch turn activate deactivate
visibility!: private public visible open hidden closed internal repository
hosting!: host run deploy hosting cloud server live infrastructure on-premise machine place sit cluster region
    provider reside operate
region!: region host locate zone datacenter
deploy!: deploy ship release deployment rollout push production schedule roll
database!: database store data db keep use backend persist storage datastore
storage!: store keep save live hold storage put reside document file locate find wiki
os!: run os operating system install machine linux server
port!: port listen run bind use expose serve accessible reach
version!: version run upgrade use release update level pin on
memory!: memory ram need require gb gigabyte have allocate
timeout!: timeout time out wait second limit
retry!: retry attempt time
retention!: retention keep retain log day store delete period month
backup!: backup back run copy job take
schedule!: schedule run every time job start cron happen nightly take-place daily weekly occur begin kick execute hold
    at
tracking!: track ticket task board issue manage tool project kept backlog use log tracker
docs!: document documentation docs wiki keep write live notion
language_of!: write language implement code build programming stack develop
framework!: framework use build write library frontend backend stack base
branch!: branch default main trunk commit branching model merge
customer!: customer client buyer for contract deal work sign
vendor!: vendor supplier supply provide provider buy source deliver
contract!: contract agreement term renew sign end deal run
shipping!: ship deliver send address delivery package parcel
order: order purchase place buy
refund: refund return money reimburse
ticket: ticket case issue complaint report
payment!: pay payment card method invoice bill billing charge transfer settle via paypal
currency!: currency usd eur gbp pay bill price display
format!: format export report file csv output come produce generate deliver out send
style!: answer reply respond response format style form use write want like explain explanation short concise brief
    length detailed detail verbose bullet summary point
tone!: tone formal informal casual friendly style address
theme!: theme mode dark light colour interface display ui
colour!: colour color paint
size!: size wear shoe shirt fit measure large
height!: height tall measure
weight!: weight weigh kilo kg pound
wake!: wake up get early morning alarm riser rise
sleep!: sleep bed bedtime go night
lunch!: lunch eat dinner breakfast meal noon
reading!: read book novel currently page
watching!: watch series show movie film stream tv
listening: listen music band song podcast genre
cooking: cook bake recipe kitchen dish meal food cuisine
gaming: game play console
hand!: left-handed hand lefty right-handed write right-hander left-hander southpaw
vision: colour-blind colourblind color-blind colours chart glasses see tell wear
access!: access permission admin right grant revoke role privilege can allow
oncall!: on-call call rotation duty shift week pager cover
leave!: leave vacation holiday parental maternity paternity sabbatical back return away absent off
residence_plan!: flat apartment house look search hunt lease buy rent
headcount!: people person headcount member team size staff work employee number
capacity!: capacity seat hold fit room people accommodate
tasks!: task open remain ticket todo left
temperature!: temperature degree warm thermostat set heat celsius keep
wifi!: wifi network ssid router password internet
device!: laptop phone device computer machine use tablet own model
insurance!: insurance insure insurer cover policy
bank!: bank account banking
broker!: broker brokerage exchange trade account wallet
gym!: gym member membership train workout fitness
router: route router network
goal!: goal aim target want plan objective intend hope aspire
volunteering: volunteer charity help donate
religion!: religion religious faith church
pronouns!: pronoun
party!: party celebrate wedding celebration
gift: gift present
emergency!: emergency contact call
approval_limit!: approve approval above need sign-off limit threshold
encryption!: encrypt encryption cipher
auth!: auth authentication login sign sso log authenticate password credential
model!: model llm use gpt provider
review!: review reviewer approve approval pull request merge code
sla!: sla respond response guarantee uptime within hour
monitoring!: monitor alert dashboard metric watch observability
invoice!: invoice bill send billing month
quota!: quota limit request rate per throttle
slippage!: slippage tolerance maximum
stop!: stop loss set
rebalance!: rebalance portfolio schedule every
research!: research study thesis topic work dissertation project phd
author: author write paper publish
conference: conference attend speak talk
"""

LIGHT: Final = frozenset(
    stem(word)
    for word in """
    thing way person people place part one man woman guy user someone something somebody everybody behind back new old
    come go take get give put make made let keep bring set lie use run have hold do happen occur turn find main mainly
    mostly primarily belong around about via through across along just also too even ever really truly very whole own
    every each all any several both same such certain particular specific actual current present regular usual normal
    time day basis case regard term form type amount number total value figure aside apart away together per within
    only exactly exact precisely merely always generally typically often far long well good big much many lot clear
    plan currently presently upon onto serve act consider deem count seem appear feel become remain stay stand sit
    sure need needs require requires should must may might shall be being been call name mean means meant based choice
    considers considered self like careful care note importantly please mind remember team service project company
    side group choose pick want wants wish prefer
    """.split()
)
"""Words by which one thing is said another way, and which do not make it another thing."""


def term_of(word: str) -> str:
    """The term that a word stands for."""
    cut = stem(word)
    return EXACT.get(word) or SAME.get(cut, cut)


def _read() -> tuple[dict[str, frozenset[str]], frozenset[str]]:
    found: dict[str, set[str]] = {}
    single: set[str] = set()
    topic = ""
    for line in _TOPICS.strip().splitlines():
        head, colon, rest = line.partition(":")
        if colon:
            topic = head.removesuffix("!")
            if head.endswith("!"):
                single.add(topic)
        for word in (rest if colon else line).split():
            found.setdefault(term_of(word), set()).add(topic)
    return {term: frozenset(topics) for term, topics in found.items()}, frozenset(single)


_NOTHING: Final[frozenset[str]] = frozenset()
TOPICS, SINGLE = _read()
"""The topics of a term, and those that are about something of which there is one at a time."""


def topics_of(term: str) -> frozenset[str]:
    """What a term may be about."""
    return TOPICS.get(term, _NOTHING)
