"""Lexicon of the clinic world: joints, bones, skin, eyes and ears."""

from __future__ import annotations

from typing import Final

from cloister.data.worlds.clinic.condition import Condition, condition

__all__ = ["JOINTS_SKIN_AND_SENSES"]

JOINTS_SKIN_AND_SENSES: Final[tuple[Condition, ...]] = (
    condition(
        "low back pain", 2, "rheumatology", ages=(20, 80),
        names="chronic lumbar pain; lumbago; lumbar spondylosis; mechanical back pain",
        lay="bad back; slipped disc",
        symptoms="stiff back in the morning; pain on bending; pain shooting down the leg; spasm "
        "after lifting; pain when sitting long",
        signs="paraspinal muscle spasm; straight leg raise to seventy degrees; no saddle numbness",
        drugs="naproxen 250 mg twice daily|nsaid; paracetamol 1 g up to four times daily; "
        "codeine 30 mg as needed|opioid; lidocaine plaster at night",
        tests="Oswestry score 18-62 %",
        procedures="lumbar spine MRI; physiotherapy; back school",
        advice="stay active; lift with bent knees; use heat in the evening; avoid bed rest",
        related="osteoarthritis; osteoporosis; fibromyalgia; depression",
    ),
    condition(
        "osteoarthritis", 5, "rheumatology", ages=(45, 88), heritable=True,
        names="degenerative joint disease; osteoarthritis of the knee; OA; osteoarthritis of the "
        "hip",
        lay="worn joints; wear and tear",
        symptoms="knee pain on stairs; stiffness after sitting; grating in the joint; aching hip "
        "at "
        "night; swollen knee",
        signs="crepitus of both knees; small effusion; reduced internal rotation of the hip; "
        "Heberden nodes",
        drugs="diclofenac gel three times daily|nsaid; paracetamol 1 g up to four times daily; "
        "capsaicin cream four times daily; ibuprofen 400 mg with food|nsaid",
        tests="walking distance 2400-300 m",
        procedures="knee X-ray; physiotherapy; knee replacement; joint injection",
        advice="strengthen the thigh muscles; use a stick on the good side; lose a little weight",
        related="obesity; low back pain; gout; rheumatoid arthritis",
    ),
    condition(
        "rheumatoid arthritis", 55, "rheumatology", ages=(28, 78), heritable=True,
        names="RA; seropositive rheumatoid arthritis; inflammatory polyarthritis",
        lay="inflamed joints; crippling arthritis",
        symptoms="swollen knuckles; morning stiffness over an hour; weak grip; tiredness; sore "
        "balls "
        "of the feet",
        signs="boggy swelling of the finger joints; ulnar drift; rheumatoid nodule at the elbow",
        drugs="methotrexate 15 mg once weekly|teratogen; sulfasalazine 1 g twice "
        "daily|sulfonamide; "
        "hydroxychloroquine 200 mg once daily; etanercept injection once weekly",
        tests="DAS28 score 2.8-6.1; CRP 6-72 mg/l; ESR 18-84 mm/h",
        procedures="hand X-rays; joint ultrasound; rheumatology clinic review",
        advice="report a sore throat or fever; protect the finger joints; have blood checks on "
        "time",
        related="osteoporosis; carpal tunnel syndrome; osteoarthritis; polymyalgia rheumatica",
    ),
    condition(
        "polymyalgia rheumatica", 69, "rheumatology", ages=(58, 90),
        names="PMR; polymyalgia; rheumatic muscle syndrome",
        lay="muscle rheumatism; stiff shoulders and hips",
        symptoms="stiff shoulders in the morning; trouble rising from a chair; sore upper arms; "
        "tiredness and low fever",
        signs="painful shoulder abduction; no temporal artery tenderness; normal muscle power",
        drugs="prednisolone 10 mg each morning; prednisolone 5 mg each morning",
        tests="ESR 44-96 mm/h; CRP 18-92 mg/l",
        procedures="temporal artery ultrasound; bone density scan",
        advice="never stop steroids suddenly; report headache or blurred sight at once",
        related="rheumatoid arthritis; osteoporosis; fibromyalgia",
    ),
    condition(
        "osteoporosis", 30, "rheumatology", ages=(55, 90), heritable=True,
        names="low bone density; bone mineral loss; osteoporotic spine",
        lay="brittle bones; thin bones",
        symptoms="loss of height; sudden back pain; stooped posture; fear of falling",
        signs="thoracic kyphosis; tender mid-thoracic spine; steady stance on one leg for five "
        "seconds",
        drugs="alendronic acid 70 mg once weekly; denosumab injection twice a year; calcium and "
        "vitamin D once daily; zoledronic acid infusion once a year",
        tests="T-score minus 2.5-4.1; vitamin D 62-18 nmol/l",
        procedures="bone density scan; falls assessment; spine X-ray",
        advice="take calcium with meals; do balance exercises; walk in daylight",
        related="wrist fracture; rheumatoid arthritis; polymyalgia rheumatica; menopause",
    ),
    condition(
        "fibromyalgia", 82, "rheumatology", ages=(22, 65),
        names="fibromyalgia syndrome; chronic widespread pain; central sensitisation",
        lay="pain all over; aching everywhere",
        symptoms="pain all over; unrefreshing sleep; foggy thinking; tender neck; tiredness after "
        "small tasks",
        signs="multiple tender points; full joint movement; no joint swelling",
        drugs="duloxetine 60 mg once daily; pregabalin 75 mg twice daily; amitriptyline 10 mg at "
        "night",
        tests="pain index 7-18 points",
        procedures="pain management programme; graded exercise; hydrotherapy",
        advice="pace the day; start with five minutes of walking; keep to a bedtime",
        related="depression; low back pain; irritable bowel syndrome; insomnia", avoid="opioid",
    ),
    condition(
        "ankle sprain", 27, "rheumatology", chronic=False, ages=(8, 70),
        names="lateral ligament sprain; inversion injury of the ankle; ankle distortion",
        lay="twisted ankle; rolled ankle",
        symptoms="swollen outer ankle; pain on weight bearing; bruising of the foot; giving way",
        signs="tender anterior talofibular ligament; no bony tenderness; ability to take four "
        "steps",
        drugs="ibuprofen 400 mg with food|nsaid,adult; paracetamol suspension by weight|child; "
        "paracetamol 1 g up to four times daily|adult",
        procedures="ankle X-ray; functional brace; physiotherapy",
        advice="rest, ice and raise the foot; start balance exercises after a week",
        related="wrist fracture; plantar fasciitis",
    ),
    condition(
        "shoulder tendinopathy", 36, "rheumatology", chronic=False, ages=(30, 80),
        names="rotator cuff tendinopathy; subacromial impingement; supraspinatus tendinitis",
        lay="bad shoulder; painful shoulder",
        symptoms="pain lifting the arm; pain lying on the shoulder; weakness reaching overhead; "
        "catching in the joint",
        signs="painful arc from sixty degrees; positive empty can test; full passive movement",
        drugs="naproxen 250 mg twice daily|nsaid; paracetamol 1 g up to four times daily; "
        "shoulder injection with triamcinolone",
        procedures="shoulder ultrasound; physiotherapy; subacromial decompression",
        advice="avoid lifting above the head; do pendulum exercises twice a day",
        related="tennis elbow; polymyalgia rheumatica; osteoarthritis",
    ),
    condition(
        "tennis elbow", 80, "rheumatology", chronic=False, ages=(28, 65),
        names="lateral epicondylitis; lateral elbow tendinopathy; epicondylalgia",
        lay="sore elbow; elbow strain",
        symptoms="pain on gripping; ache on the outside of the elbow; weak handshake; pain turning "
        "a key",
        signs="tender lateral epicondyle; pain on resisted wrist extension",
        drugs="diclofenac gel three times daily|nsaid; elbow clasp during work",
        procedures="physiotherapy; shock wave therapy",
        advice="change the lifting technique; use ice after work",
        related="shoulder tendinopathy; carpal tunnel syndrome",
    ),
    condition(
        "plantar fasciitis", 78, "rheumatology", chronic=False, ages=(28, 70),
        names="plantar heel pain; plantar fasciopathy; heel spur syndrome",
        lay="heel spur; sore heel",
        symptoms="heel pain with the first steps; burning sole; pain after long standing",
        signs="tender medial heel; tight calf muscles; flat arch",
        drugs="cushioned insoles; ibuprofen 400 mg with food|nsaid",
        procedures="foot X-ray; podiatry; shock wave therapy",
        advice="stretch the calf before rising; roll the sole over a cold bottle",
        related="ankle sprain; obesity; gout",
    ),
    condition(
        "wrist fracture", 74, "rheumatology", chronic=False, ages=(5, 90), graded=False,
        names="distal radius fracture; Colles fracture; fractured wrist",
        lay="broken wrist; broken arm",
        symptoms="wrist pain after a fall; swollen hand; bent wrist; numb fingers",
        signs="dinner-fork deformity; normal finger sensation; tender distal radius",
        drugs="paracetamol 1 g up to four times daily|adult; "
        "paracetamol suspension by weight|child",
        procedures="wrist X-ray; plaster cast; plate fixation; hand physiotherapy",
        advice="keep the arm in a sling; move the fingers every hour; keep the plaster dry",
        related="osteoporosis; ankle sprain; concussion",
    ),
    condition(
        "eczema", 13, "dermatology", ages=(1, 50), heritable=True,
        names="atopic dermatitis; atopic eczema; hand eczema",
        lay="itchy skin; dry rash",
        symptoms="itching at night; cracked skin; red patches in the elbow folds; weeping skin; "
        "flaking hands",
        signs="lichenified elbow creases; dry scaly patches; scratch marks without infection",
        drugs="hydrocortisone cream twice daily; emollient ointment twice daily; tacrolimus "
        "ointment "
        "twice daily; betamethasone ointment once daily for a week",
        tests="eczema severity score 6-26 points",
        procedures="patch testing; wet wraps; dermatology referral",
        advice="use soap substitutes; wear cotton gloves for wet work; keep nails short",
        related="asthma; allergic rhinitis; psoriasis",
    ),
    condition(
        "psoriasis", 37, "dermatology", ages=(16, 70), heritable=True,
        names="plaque psoriasis; psoriasis vulgaris; scalp psoriasis",
        lay="scaly skin; silvery patches",
        symptoms="scaly elbows; itchy scalp; pitted nails; silvery plaques on the knees; flakes on "
        "clothing",
        signs="well-demarcated plaques over both elbows; nail pitting; scalp scale at the hairline",
        drugs="calcipotriol ointment once daily; coal tar shampoo twice a week; secukinumab "
        "injection every month; narrowband phototherapy",
        tests="affected skin 3-24 %",
        procedures="phototherapy; dermatology review; joint screening",
        advice="get a little sun but never burn; moisturise daily; cut down on alcohol",
        related="eczema; rheumatoid arthritis; depression",
    ),
    condition(
        "acne", 46, "dermatology", ages=(12, 30), until=40,
        names="acne vulgaris; cystic acne; papulopustular acne",
        lay="spots; pimples",
        symptoms="spots on the face; painful lumps on the back; oily skin; scarring on the cheeks",
        signs="open comedones on the forehead; inflamed papules on the jaw; shallow scars",
        drugs="adapalene gel at night|teratogen; benzoyl peroxide gel once daily; azelaic acid "
        "cream "
        "twice daily; clindamycin lotion twice daily",
        procedures="dermatology referral; skin care consultation",
        advice="do not squeeze; wash with a mild cleanser; allow eight weeks for effect",
        related="polycystic ovary syndrome; eczema",
    ),
    condition(
        "cellulitis", 60, "dermatology", chronic=False, ages=(15, 92),
        names="erysipelas; soft tissue infection; lower leg cellulitis",
        lay="skin infection; infected leg",
        symptoms="spreading redness of the leg; hot tender skin; shivering; swelling around a cut",
        signs="sharply edged erythema of the shin; no crepitus; tender groin node",
        drugs="flucloxacillin 500 mg four times daily|penicillin; clarithromycin 500 mg twice "
        "daily;"
        " clindamycin 300 mg four times daily",
        tests="CRP 32-210 mg/l; temperature 37.4-39.2 degrees",
        procedures="wound swab; marking of the margin; leg ultrasound",
        advice="keep the leg up; return if redness passes the line; treat cracks between the toes",
        related="varicose veins; deep vein thrombosis; type 2 diabetes",
    ),
    condition(
        "melanoma", 88, "oncology", ages=(28, 85), heritable=True, graded=False,
        names="malignant melanoma; superficial spreading melanoma; cutaneous melanoma",
        lay="skin cancer; changing mole; bad mole",
        symptoms="a mole that changed colour; bleeding mole; itching mole; new dark spot",
        signs="irregular pigmented lesion of eight millimetres; clean excision scar; no enlarged "
        "nodes",
        drugs="nivolumab infusion every four weeks|teratogen; SPF 50 sunscreen every day",
        tests="Breslow thickness 0.4-3.8 mm",
        procedures="wide local excision; sentinel node biopsy; full skin check; dermoscopy",
        advice="check the skin every month; stay out of midday sun; wear a hat",
        related="psoriasis; eczema",
    ),
    condition(
        "shingles", 41, "infections", chronic=False, ages=(40, 92),
        names="herpes zoster; zoster of the trunk; varicella zoster reactivation",
        lay="a belt of blisters; nerve rash",
        symptoms="burning band around the chest; blisters on one side; skin too sore to touch; "
        "tingling before the rash",
        signs="grouped vesicles in one dermatome; no eye involvement; crusting lesions",
        drugs="aciclovir 800 mg five times daily; valaciclovir 1 g three times daily; gabapentin "
        "300 mg at night",
        procedures="vesicle swab; pain clinic referral",
        advice="cover the rash; stay away from pregnant women; ask for the vaccine later",
        related="chickenpox; cellulitis",
    ),
    condition(
        "cataract", 34, "ophthalmology", ages=(58, 92),
        names="nuclear cataract; lens opacity; age-related cataract",
        lay="cloudy eye; clouding of the lens",
        symptoms="glare from headlights; cloudy vision; faded colours; trouble reading; "
        "changing glasses often",
        signs="dull red reflex; lens opacity in the right eye; normal eye pressure",
        drugs="stronger reading glasses; lubricating eye drops four times daily",
        tests="visual acuity 0.7-0.2",
        procedures="cataract surgery; eye biometry; slit lamp examination",
        advice="use good lamps for reading; wear sunglasses; do not drive at night",
        related="glaucoma; type 2 diabetes",
    ),
    condition(
        "glaucoma", 51, "ophthalmology", ages=(45, 88), heritable=True,
        names="primary open-angle glaucoma; raised eye pressure; ocular hypertension",
        lay="eye pressure; tunnel vision",
        symptoms="patchy side vision; halos around lights; bumping into door frames; sore eyes",
        signs="cupped optic discs; arcuate field defect; open angles",
        drugs="latanoprost eye drops at night; dorzolamide eye drops twice daily; timolol eye "
        "drops "
        "twice daily|beta_blocker",
        tests="eye pressure 19-31 mmHg",
        procedures="visual field test; optic nerve scan; laser trabeculoplasty",
        advice="use the drops without fail; have brothers and sisters checked",
        related="cataract; migraine; hypertension",
    ),
    condition(
        "conjunctivitis", 40, "ophthalmology", chronic=False, ages=(0, 85),
        names="bacterial conjunctivitis; infective conjunctivitis; allergic conjunctivitis",
        lay="pink eye; sticky eye",
        symptoms="sticky eyelids in the morning; red eye; swollen eyelids; watering eye",
        signs="injected conjunctiva; yellow discharge; clear cornea",
        drugs="chloramphenicol eye drops; saline eye baths; fusidic acid eye gel",
        procedures="eye swab; fluorescein examination",
        advice="wash hands often; use a separate towel; clean the lids with boiled water",
        related="allergic rhinitis; common cold",
    ),
    condition(
        "hearing loss", 57, "audiology", ages=(55, 92), heritable=True,
        names="presbyacusis; sensorineural hearing loss; age-related hearing loss",
        lay="going deaf; hard of hearing",
        symptoms="turning up the television; ringing in the ears; missing words in company; asking "
        "people to repeat",
        signs="intact eardrums; lateralised Weber test; wax cleared from both canals",
        drugs="bilateral hearing aids; tinnitus masker at night",
        tests="hearing threshold 34-72 dB",
        procedures="audiogram; hearing aid fitting; ear microsuction",
        advice="face people when they talk; wear the aids all day; protect the ears from noise",
        related="positional vertigo; dementia",
    ),
)  # fmt: skip
